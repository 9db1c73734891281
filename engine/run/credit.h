// Credits bound what is in flight. A segment of the graph has a pool of N credits; a packet that
// enters owns one through a shared token, and the token's destructor gives it back. So drop,
// filter, fan-out, exception and cut all return it, without anybody thinking of it.
//
// Invariant: taken + free = total at every moment; the pool outlives its tokens (they share it)
// and calls nobody once it is closed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace sluice {

class CreditPool;
class Stream;
class Token;
using Credit = std::shared_ptr<const Token>;

// What a packet holds: a credit, or several where ports of different segments were joined.
class Token {
 public:
  explicit Token(std::shared_ptr<CreditPool> pool) : pool_(std::move(pool)) {}
  Token(std::shared_ptr<const Token> a, std::shared_ptr<const Token> b)
      : first_(std::move(a)), second_(std::move(b)) {}
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  ~Token();

 private:
  friend Credit until_done(const Credit& credit, const Stream* stream);
  std::shared_ptr<CreditPool> pool_;
  std::shared_ptr<const Token> first_, second_;
};

// Both credits as one; either may be null, and equal ones are not doubled.
Credit join(const Credit& a, const Credit& b);

// What of a credit is kept until a device's stream has done what was queued on it: all but those of
// pools that bound what the host queues there.
Credit until_done(const Credit& credit, const Stream* stream);

class CreditPool : public std::enable_shared_from_this<CreditPool> {
 public:
  // `on_return` is called, outside all locks, after a credit came home.
  CreditPool(int total, std::function<void()> on_return)
      : total_(total), free_(total), on_return_(std::move(on_return)) {}

  Credit try_take();
  void close();  // returns when no call of on_return runs, and none will
  int total() const { return total_; }
  int out() const { return total_ - free_.load(); }
  int most_out() const { return most_out_.load(); }
  const Stream* until_queued = nullptr;  // its credits bound what the host queues there

 private:
  friend class Token;
  void give_back();

  const int total_;
  std::atomic<int> free_;
  std::atomic<int> most_out_{0};
  std::function<void()> on_return_;
  std::atomic<int> calling_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace sluice
