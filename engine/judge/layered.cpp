#include "engine/judge/layered.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace sluice {
namespace {

// A place in a row: a box, or where a line passes.
struct Item {
  int box = -1, line = -1;
  double width = 0, x = 0;                           // x: its centre
  std::vector<std::pair<int, double>> above, below;  // items next to it, and how they pull
};

// Where an item would stand by itself, and how much that counts.
struct Wish {
  double x = 0, weight = 0.01;
};

// The centres nearest to what is wished, by least squares, of items that keep their order and
// distance: neighbours that would come too near share their mean (pool adjacent violators).
void settle(const std::vector<int>& row, std::vector<Item>& items, const std::vector<Wish>& wishes,
            double gap) {
  struct Group {
    double sum, weight;
    int count;
  };
  std::vector<Group> groups;
  std::vector<double> offset(row.size(), 0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0)
      offset[i] = offset[i - 1] + gap +
                  (items[static_cast<std::size_t>(row[i - 1])].width +
                   items[static_cast<std::size_t>(row[i])].width) /
                      2;
    const Wish& w = wishes[i];
    groups.push_back({(w.x - offset[i]) * w.weight, w.weight, 1});
    while (groups.size() > 1) {
      const Group last = groups.back();
      Group& before = groups[groups.size() - 2];
      if (before.sum / before.weight <= last.sum / last.weight) break;
      before = {before.sum + last.sum, before.weight + last.weight, before.count + last.count};
      groups.pop_back();
    }
  }
  std::size_t i = 0;
  for (const Group& g : groups)
    for (int k = 0; k < g.count; ++k, ++i)
      items[static_cast<std::size_t>(row[i])].x = g.sum / g.weight + offset[i];
}

class Piece {  // what lines hold together
 public:
  Piece(LayeredLayout& all, std::vector<int> boxes, std::vector<int> lines)
      : all_(all), boxes_(std::move(boxes)), lines_(std::move(lines)) {}

  void arrange() {
    ranks();
    rows();
    for (int sweep = 0; sweep < 12; ++sweep) order(sweep % 2 == 0);
    columns();
    heights();
  }
  double width = 0, height = 0;

 private:
  Item& item(int i) { return items_[static_cast<std::size_t>(i)]; }
  LayoutBox& box(int i) { return all_.boxes[static_cast<std::size_t>(i)]; }
  LayoutLine& line(int i) { return all_.lines[static_cast<std::size_t>(i)]; }
  int& rank(int box) { return rank_[static_cast<std::size_t>(box)]; }

  // Longest paths from above; what nothing leads to stands right above what it leads to.
  void ranks() {
    rank_.assign(all_.boxes.size(), 0);
    std::vector<std::vector<int>> down(all_.boxes.size());
    std::vector<int> state(all_.boxes.size(), 0), finished;  // 1: being visited, 2: done
    std::vector<int> kept;
    for (const int l : lines_) down[static_cast<std::size_t>(line(l).from)].push_back(l);
    const std::function<void(int)> visit = [&](int b) {
      state[static_cast<std::size_t>(b)] = 1;
      for (const int l : down[static_cast<std::size_t>(b)]) {
        const int to = line(l).to;
        if (state[static_cast<std::size_t>(to)] == 1) continue;  // would close a circle
        kept.push_back(l);
        if (state[static_cast<std::size_t>(to)] == 0) visit(to);
      }
      state[static_cast<std::size_t>(b)] = 2;
      finished.push_back(b);
    };
    for (const int b : boxes_)
      if (state[static_cast<std::size_t>(b)] == 0) visit(b);
    lines_ = kept;
    std::vector<bool> has_above(all_.boxes.size(), false);
    for (const int l : lines_) has_above[static_cast<std::size_t>(line(l).to)] = true;
    for (auto b = finished.rbegin(); b != finished.rend(); ++b)
      for (const int l : lines_)
        if (line(l).from == *b) rank(line(l).to) = std::max(rank(line(l).to), rank(*b) + 1);
    for (const int b : boxes_) {
      int nearest = -1;
      for (const int l : lines_)
        if (line(l).from == b)
          nearest = nearest < 0 ? rank(line(l).to) : std::min(nearest, rank(line(l).to));
      if (!has_above[static_cast<std::size_t>(b)] && nearest > 0) rank(b) = nearest - 1;
    }
  }

  void rows() {
    int most = 0;
    for (const int b : boxes_) most = std::max(most, rank(b));
    rows_.resize(static_cast<std::size_t>(most) + 1);
    std::vector<int> of_box(all_.boxes.size(), -1);
    const auto add = [&](Item made, int row) {
      rows_[static_cast<std::size_t>(row)].push_back(static_cast<int>(items_.size()));
      items_.push_back(std::move(made));
      return static_cast<int>(items_.size()) - 1;
    };
    for (const int b : boxes_)
      of_box[static_cast<std::size_t>(b)] = add({b, -1, box(b).width, 0, {}, {}}, rank(b));
    for (const int l : lines_) {
      int last = of_box[static_cast<std::size_t>(line(l).from)];
      const int to = of_box[static_cast<std::size_t>(line(l).to)];
      const double pull = line(l).weak ? 0.02 : 1;
      const auto connect = [&](int next) {
        item(last).below.emplace_back(next, pull);
        item(next).above.emplace_back(last, pull);
        last = next;
      };
      for (int r = rank(line(l).from) + 1; r < rank(line(l).to); ++r)
        connect(add({-1, l, 4, 0, {}, {}}, r));
      connect(to);
    }
  }

  // Each row by the mean place of its neighbours in the row before it, or after it.
  void order(bool downwards) {
    std::vector<double> place(items_.size());
    const auto count = static_cast<int>(rows_.size());
    for (auto& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i)
        place[static_cast<std::size_t>(row[i])] = static_cast<double>(i);
    for (int k = 1; k < count; ++k) {
      auto& row = rows_[static_cast<std::size_t>(downwards ? k : count - 1 - k)];
      std::vector<double> wish(items_.size());
      for (const int i : row) {
        const auto& next = downwards ? item(i).above : item(i).below;
        double sum = 0, pulls = 0;
        for (const auto& [n, pull] : next)
          sum += pull * place[static_cast<std::size_t>(n)], pulls += pull;
        wish[static_cast<std::size_t>(i)] =
            next.empty() ? place[static_cast<std::size_t>(i)] : sum / pulls;
      }
      std::stable_sort(row.begin(), row.end(), [&](int a, int b) {
        return wish[static_cast<std::size_t>(a)] < wish[static_cast<std::size_t>(b)];
      });
      for (std::size_t i = 0; i < row.size(); ++i)
        place[static_cast<std::size_t>(row[i])] = static_cast<double>(i);
    }
  }

  // Each row below its neighbours above, then above those below; at last between both.
  void columns() {
    for (auto& row : rows_) settle(row, items_, std::vector<Wish>(row.size()), all_.box_gap);
    const auto count = static_cast<int>(rows_.size());
    for (int sweep = 0; sweep < 16; ++sweep)
      for (int k = 0; k < count; ++k) {
        const bool downwards = sweep % 2 == 0, both = sweep >= 8;
        const auto& row = rows_[static_cast<std::size_t>(downwards ? k : count - 1 - k)];
        std::vector<Wish> wishes;
        for (const int i : row) {
          double sum = 0, pulls = 0;
          const auto pull_to = [&](const auto& next) {
            for (const auto& [j, pull] : next) sum += pull * item(j).x, pulls += pull;
          };
          if (downwards || both) pull_to(item(i).above);
          if (!downwards || both) pull_to(item(i).below);
          wishes.push_back(pulls > 0 ? Wish{sum / pulls, pulls} : Wish{item(i).x});
        }
        settle(row, items_, wishes, all_.box_gap);
      }
    double left = 1e300, right = -1e300;
    for (const Item& i : items_) {
      left = std::min(left, i.x - i.width / 2);
      right = std::max(right, i.x + i.width / 2);
    }
    for (Item& i : items_) i.x -= left;
    width = right - left;
  }

  void heights() {
    double y = 0;
    for (const auto& row : rows_) {
      double most = 0;
      for (const int i : row)
        if (item(i).box >= 0) most = std::max(most, box(item(i).box).height);
      for (const int i : row) {
        const Item& it = item(i);
        if (it.box < 0) {
          line(it.line).passes.push_back({it.x, y, y + most});
          continue;
        }
        LayoutBox& b = box(it.box);
        b.x = it.x - b.width / 2;
        b.y = y + (it.above.empty() ? most - b.height : (most - b.height) / 2);
      }
      y += most + all_.row_gap;
    }
    height = y - all_.row_gap;
  }

  LayeredLayout& all_;
  std::vector<int> boxes_, lines_;
  std::vector<int> rank_;
  std::vector<Item> items_;
  std::vector<std::vector<int>> rows_;
};

}  // namespace

void LayeredLayout::arrange() {
  std::vector<int> piece(boxes.size());
  std::iota(piece.begin(), piece.end(), 0);
  const std::function<int(int)> root = [&](int b) {
    int& up = piece[static_cast<std::size_t>(b)];
    return up == b ? b : up = root(up);
  };
  const auto join = [&](int a, int b) {
    const int one = root(a), other = root(b);
    piece[static_cast<std::size_t>(std::max(one, other))] = std::min(one, other);
  };
  std::vector<bool> held(boxes.size(), false);
  for (const LayoutLine& l : lines) {
    if (l.weak) continue;
    join(l.from, l.to);
    held[static_cast<std::size_t>(l.from)] = held[static_cast<std::size_t>(l.to)] = true;
  }
  for (const LayoutLine& l : lines)  // what weak lines alone lead from stands by the first of them
    if (l.weak && !held[static_cast<std::size_t>(l.from)]) {
      join(l.from, l.to);
      held[static_cast<std::size_t>(l.from)] = true;
    }
  for (int r = 0; r < static_cast<int>(boxes.size()); ++r) {
    std::vector<int> members, own;
    for (int b = 0; b < static_cast<int>(boxes.size()); ++b)
      if (root(b) == r) members.push_back(b);
    if (members.empty()) continue;
    for (int l = 0; l < static_cast<int>(lines.size()); ++l)
      if (root(lines[static_cast<std::size_t>(l)].from) == r &&
          root(lines[static_cast<std::size_t>(l)].to) == r)
        own.push_back(l);
    Piece p(*this, members, own);
    p.arrange();
    const double shift = width > 0 ? width + 2 * box_gap : 0;
    for (const int b : members) boxes[static_cast<std::size_t>(b)].x += shift;
    for (const int l : own)
      for (auto& pass : lines[static_cast<std::size_t>(l)].passes) pass.x += shift;
    width = shift + p.width;
    height = std::max(height, p.height);
  }
}

}  // namespace sluice
