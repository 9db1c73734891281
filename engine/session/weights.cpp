#include "engine/session/weights.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <cstring>
#include <set>

#include "engine/base/diagnostic.h"
#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/state/checkpoint.h"
#include "engine/state/nnunet_names.h"
#include "engine/state/torch_file.h"

namespace sluice {

namespace fs = std::filesystem;
using Named = std::map<std::string, at::Tensor>;

static Named read(const fs::path& from, const WantedDictionary& wanted) {
  if (fs::is_regular_file(from) && is_torch_file(from)) return read_torch_file(from, wanted);
  if (!wanted.key.empty())
    throw Error(Exit::usage,
                from.string() + ": holds no dictionaries, so no \"" + wanted.key + "\"");
  if (fs::is_regular_file(from)) return read_safetensors(from);
  if (fs::is_regular_file(from / "weights.safetensors"))  // a package
    return read_safetensors(from / "weights.safetensors");
  if (fs::is_directory(from / "checkpoints"))
    return load_checkpoint(newest_checkpoint(from / "checkpoints")).model;
  if (fs::is_regular_file(from / "state.json")) return load_checkpoint(from).model;
  if (fs::is_regular_file(from / "model.safetensors"))  // what `sluice prune` wrote
    return read_safetensors(from / "model.safetensors");
  throw IoError(from.string() +
                ": no weights here: give a run folder, a checkpoint folder, a .safetensors file or "
                "one of torch.save()");
}

Named read_weights(const fs::path& from, const WantedDictionary& wanted,
                   const std::string& strip_prefix) {
  Named all = read(from, wanted), stripped;
  for (auto& [name, tensor] : all) {
    const std::string rest =
        name.starts_with(strip_prefix) ? name.substr(strip_prefix.size()) : name;
    if (!stripped.emplace(rest, tensor).second)
      throw Error(Exit::usage, from.string() + ": without \"" + strip_prefix +
                                   "\" there would be two \"" + printable(rest) + "\"");
  }
  leave_out_repeats(stripped, from.string());
  return stripped;
}

// ---- what fits ----------------------------------------------------------------------------------

namespace weights {

// The first three, and how many more.
static std::string listed(const std::vector<std::string>& all) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, all.size()); ++i)
    text += (i ? ", " : "") + all[i];
  return all.size() > 3 ? text + " and " + std::to_string(all.size() - 3) + " more" : text;
}

// A parameter's name in MONAI Generative 0.2, from which MONAI took its networks over.
static std::string former_name(std::string name) {
  for (const auto& [now, then] : {std::pair{".attn.to_q.", ".to_q."},
                                  {".attn.to_k.", ".to_k."},
                                  {".attn.to_v.", ".to_v."},
                                  {".attn.out_proj.", ".proj_attn."},
                                  {".postconv.", ".conv."}})
    if (const auto at = name.find(now); at != std::string::npos)
      return name.replace(at, std::strlen(now), then);
  const auto at = name.find(".out_proj.");
  if (at == std::string::npos || name.find("transformer_blocks") == std::string::npos) return name;
  return name.replace(at, std::strlen(".out_proj."), ".to_out.0.");
}

struct Fit {
  std::vector<std::string> filled, missing, misshapen, unused;
};

static Fit copy(Network& network, const std::string& name, const Named& tensors, bool all) {
  const at::NoGradGuard no_grad;
  auto mine = network.parameters();
  for (auto& b : network.buffers()) mine.push_back(b);
  Fit fit;
  std::set<std::string> own, used;
  for (const auto& [key, tensor] : mine) own.insert(key);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (auto& [key, tensor] : mine) {
    auto it = tensors.find(name + "." + key);
    if (it == tensors.end()) it = tensors.find(key);
    if (const auto then = former_name(key); it == tensors.end() && !own.contains(then))
      it = tensors.find(then);
    // A network that had no zeros to keep has no masks; files older than PyTorch 0.4.1, and those
    // that others write, do not count batches.
    if (it == tensors.end() && (key.ends_with(".mask") || key.ends_with(".num_batches_tracked")))
      continue;
    if (it == tensors.end() || !used.insert(it->first).second) {
      fit.missing.push_back('"' + key + '"');
      continue;
    }
    if (it->second.sizes() != tensor.sizes()) {
      fit.misshapen.push_back('"' + key + "\" is " + c10::str(it->second.sizes()) + " there and " +
                              c10::str(tensor.sizes()) + " here");
      continue;
    }
    fit.filled.push_back(key);
    copies.emplace_back(tensor, it->second);
  }
  for (const auto& [key, tensor] : tensors)
    if (!used.contains(key)) fit.unused.push_back('"' + printable(key) + '"');
  if (!all || (fit.missing.empty() && fit.misshapen.empty()))
    for (const auto& [to, value] : copies) to.copy_(value);
  return fit;
}

// Numbers of the file that are of no parameter, and no second name of one, such as the encoder has
// in nnU-Net's decoder. Of a file with the network's own name in front, those behind that name.
static std::vector<std::string> without_place(const std::string& name, const Named& tensors,
                                              const Fit& fit) {
  const std::set<std::string> unused(fit.unused.begin(), fit.unused.end());
  const auto is_unused = [&](const std::string& key) {
    return unused.contains('"' + printable(key) + '"');
  };
  const bool named = std::ranges::any_of(tensors, [&](const auto& one) {
    return one.first.starts_with(name + ".") && !is_unused(one.first);
  });
  std::vector<std::string> all;
  for (const auto& [key, tensor] : tensors) {
    const bool counts = tensor.is_floating_point() && (!named || key.starts_with(name + "."));
    if (!counts || !is_unused(key) || key.ends_with(".mask")) continue;
    const bool is_twin = std::ranges::any_of(tensors, [&](const auto& other) {
      return !is_unused(other.first) && other.second.sizes() == tensor.sizes() &&
             other.second.scalar_type() == tensor.scalar_type() && other.second.equal(tensor);
    });
    if (!is_twin) all.push_back('"' + printable(key) + '"');
  }
  return all;
}

// What names begin with of which each parameter's has one: "module." of nn.DataParallel, "ema." and
// "net." where a file holds both.
static std::vector<std::string> foreign_prefixes(Network& network, const Named& tensors) {
  const auto mine = network.parameters();
  std::vector<std::string> all;
  if (mine.empty()) return all;
  for (const auto& [key, tensor] : tensors) {
    const std::string& first = mine.front().first;
    if (!key.ends_with("." + first)) continue;
    std::string prefix = key.substr(0, key.size() - first.size());
    const auto has = [&](const auto& m) { return tensors.contains(prefix + m.first); };
    if (std::all_of(mine.begin(), mine.end(), has)) all.push_back(prefix);
  }
  return all;
}

// "" where there is none.
static std::string prefix_advice(Network& network, const std::string& name, const Named& tensors) {
  auto prefixes = foreign_prefixes(network, tensors);
  std::erase(prefixes, name + ".");
  if (prefixes.empty()) return "";
  for (std::string& prefix : prefixes) prefix = '"' + printable(prefix) + '"';
  if (prefixes.size() > 1)
    return "; the file has all of them behind each of " + listed(prefixes) +
           ": \"strip_prefix\" says which";
  const std::string& prefix = prefixes.front();
  const bool whole = std::ranges::all_of(tensors, [&](const auto& one) {
    return ('"' + printable(one.first)).starts_with(prefix.substr(0, prefix.size() - 1));
  });
  return (whole ? "; all its names begin with " : "; the file has all of them behind ") + prefix +
         ": \"strip_prefix\": " + prefix;
}

// What the network's names begin with that end like the file's: "vit." where a transformer's
// weights become a part of a network. The one with the most of them; "" where two have as many.
static std::string own_prefix(const Network& network, const Named& tensors) {
  std::map<std::string, std::size_t> found;
  for (const auto& [key, tensor] : network.parameters())
    for (auto dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1))
      if (tensors.contains(key.substr(dot + 1))) ++found[key.substr(0, dot + 1)];
  std::string prefix;
  std::size_t most = 0;
  for (const auto& [begin, n] : found) {
    if (n == most) prefix.clear();
    if (n > most) prefix = begin;
    most = std::max(most, n);
  }
  return prefix;
}

static std::string advice(Network& network, const std::string& name, const Named& tensors,
                          const Fit& fit, bool partial) {
  if (const auto prefix = prefix_advice(network, name, tensors); !prefix.empty()) return prefix;
  if (fit.missing.empty())
    return partial ? "; none fits" : "; \"partial\": true leaves these as they are drawn";
  if (const auto prefix = fit.filled.empty() ? own_prefix(network, tensors) : ""; !prefix.empty())
    return "; with \"partial\": true they begin the part \"" + prefix + "\"";
  std::vector<std::string> there;
  for (const auto& [key, tensor] : tensors) there.push_back(key);
  const std::string first = fit.missing.front().substr(1, fit.missing.front().size() - 2);
  const std::string near = nearest(first, there);
  if (!near.empty()) return "; the file has \"" + printable(near) + "\"";
  return "; the file has " + (fit.unused.empty() ? "nothing else" : listed(fit.unused));
}

[[noreturn]] static void refuse(const std::string& name, const std::string& from, const Fit& fit,
                                const std::string& advice = "") {
  const std::string what =
      fit.missing.empty() ? "other shapes than network \"" + name + "\": " + listed(fit.misshapen)
                          : "no tensor " + listed(fit.missing) + " for network \"" + name + "\"";
  throw Error(Exit::usage, from + ": " + what + advice);
}

}  // namespace weights

void fill(Network& network, const std::string& name, const Named& tensors,
          const std::string& from) {
  const auto fit = weights::copy(network, name, tensors, true);
  if (!fit.missing.empty() || !fit.misshapen.empty()) weights::refuse(name, from, fit);
}

static Named renamed(const Named& tensors, const std::string& prefix) {
  Named all;
  for (const auto& [key, tensor] : tensors) all.emplace(prefix + key, tensor);
  return all;
}

void begin_with(Network& network, const std::string& name, const WeightsFile& from, bool quiet) {
  const Named tensors = read_weights(from.file, {from.key}, from.strip_prefix);
  if (network.parameters().empty() && network.buffers().empty())
    throw Error(Exit::usage, from.file + ": network \"" + name +
                                 "\" has no weights to be filled: leave \"weights\" away");
  auto fit = weights::copy(network, name, tensors, !from.partial);
  std::string part;
  if (from.partial && fit.filled.empty() && fit.misshapen.empty()) {
    part = weights::own_prefix(network, tensors);
    if (!part.empty()) fit = weights::copy(network, name, renamed(tensors, part), false);
  }
  const bool whole = fit.missing.empty() && fit.misshapen.empty();
  if (fit.filled.empty() || (!from.partial && !whole))
    weights::refuse(name, from.file, fit,
                    weights::advice(network, name, tensors, fit, from.partial));
  if (quiet) return;
  if (!from.partial) {
    if (const auto more = weights::without_place(name, tensors, fit); !more.empty())
      tell("note: " + from.file + " has what network \"" + name +
           "\" has no place for, so it may be another network's: " + weights::listed(more));
    return;
  }
  std::string said = "network \"" + name + "\" begins with " + std::to_string(fit.filled.size()) +
                     " tensors of " + from.file;
  if (!part.empty()) said += ", which become its part \"" + part + "\"";
  if (!fit.missing.empty()) said += "; not there: " + weights::listed(fit.missing);
  if (!fit.misshapen.empty()) said += "; of another shape: " + weights::listed(fit.misshapen);
  if (!fit.unused.empty()) said += "; not used: " + weights::listed(fit.unused);
  tell(said);
}

}  // namespace sluice
