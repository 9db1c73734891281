// The C functions of sluice.h.
#include "engine/session/loader.h"

#include <ATen/DLConvertor.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "engine/base/cause.h"
#include "engine/base/message_listener.h"
#include "tools/runtime/package.h"
#include "tools/runtime/sluice.h"

namespace sluice {
namespace {

// Loaders that are open, and those that are being opened.
std::atomic<int> open_loaders{0};
struct OpenLoader {
  OpenLoader() { ++open_loaders; }
  ~OpenLoader() { --open_loaders; }
  OpenLoader(const OpenLoader&) = delete;
  OpenLoader& operator=(const OpenLoader&) = delete;
};

}  // namespace
}  // namespace sluice

struct sluice_loader {
  explicit sluice_loader(sluice::LoaderOptions options) : loader(std::move(options)) {}
  const sluice::OpenLoader counted;  // before it opens, until it is closed
  sluice::Loader loader;
  const pid_t opened_by = ::getpid();
};

struct sluice_batch {
  sluice::Taken taken;
};

namespace sluice {
namespace {

thread_local std::string answer;  // the string returned last
thread_local std::string error;

const char* kept(std::string text) {
  answer = std::move(text);
  return answer.c_str();
}

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

void note_failure() {
  Json j;
  try {
    throw;
  } catch (const GraphError& e) {
    j["diagnostics"] = e.diagnostics;
  } catch (const LoaderError& e) {
    j["node"] = e.node;
    j["sample"] = e.sample;
  } catch (...) {
  }
  const Cause why = cause(Exit::usage);
  j["exit"] = static_cast<int>(why.exit);
  j["text"] = why.text;
  error = dump(j);
}

// What `body` returns, or `otherwise` where it throws.
template <class T, class Body>
T guarded(T otherwise, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    note_failure();
    return otherwise;
  }
}

// A child has none of the run's threads, and its locks may be held for ever.
void require_own(const sluice_loader& l) {
  if (l.opened_by != ::getpid())
    throw Error(Exit::usage, "this loader was opened before the fork, in process " +
                                 std::to_string(l.opened_by) + ": open one in each process");
}

// Data threads are TBB's, which cannot begin anew: a child of fork() has its schedulers as they
// were and none of its threads, and would crash where work is handed to them.
std::atomic<bool> forked_from_a_run{false};

void require_fresh_threads() {
  static const int watched = ::pthread_atfork(nullptr, nullptr, [] {
    if (open_loaders > 0) forked_from_a_run = true;
  });
  if (watched != 0) throw Error(Exit::usage, "no memory is left to watch for a fork");
  if (forked_from_a_run)
    throw Error(Exit::usage,
                "this process is a child of fork(), and a loader was open in its parent then: no "
                "loader can be opened here. Close the parent's before the fork, or begin the "
                "child by \"spawn\" or \"forkserver\" (multiprocessing_context of torch's "
                "DataLoader)");
}

// What runs say, until it is asked for.
class Messages {
 public:
  static Messages& global() {
    static Messages all;
    return all;
  }
  void listen() {
    tell_to([this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      text_ += line;
    });
  }
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, "");
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

LoaderOptions options_of(const Json& j) {
  LoaderOptions o;
  o.run.command = "batches";
  o.run.graphs = j.at("graphs").get<std::vector<std::string>>();
  if (const Json text = j.value("text", Json()); text.is_string()) o.run.text = text;
  o.run.set = j.value("set", std::vector<std::string>{});
  o.run.threads = j.value("threads", 0);
  o.node = j.at("node");
  o.prefetch = j.value("prefetch", std::int64_t{2});
  o.share = j.value("share", false);
  o.state = j.value("state", Json());
  o.force = j.value("force", false);
  if (!o.run.text) open_packages(o.run);
  if (o.prefetch < 1) throw Error(Exit::usage, "prefetch is at least 1");
  return o;
}

Json meta_of(const std::vector<MetaPtr>& members) {
  Json all = Json::array();
  for (const MetaPtr& m : members) {
    Json affine;
    if (m->has_affine)
      for (std::size_t row = 0; row < 4; ++row)
        affine.push_back(std::vector(m->affine.begin() + static_cast<std::ptrdiff_t>(4 * row),
                                     m->affine.begin() + static_cast<std::ptrdiff_t>(4 * row + 4)));
    all.push_back({{"path", m->path}, {"affine", affine}});
  }
  return all;
}

}  // namespace
}  // namespace sluice

using namespace sluice;

int sluice_abi() { return SLUICE_ABI; }

sluice_loader* sluice_open(const char* request_json) {
  return guarded(static_cast<sluice_loader*>(nullptr), [&] {
    require_fresh_threads();
    Messages::global().listen();
    return new sluice_loader(options_of(Json::parse(request_json)));
  });
}

void sluice_next(sluice_loader* l, int timeout_ms, int* found, sluice_batch** out) {
  *found = guarded(-1, [&] {
    require_own(*l);
    auto batch = std::make_unique<sluice_batch>();
    const auto next = l->loader.next(std::chrono::milliseconds(timeout_ms), batch->taken);
    if (next == Loader::Next::sample) *out = batch.release();
    return next == Loader::Next::sample      ? 1
           : next == Loader::Next::epoch_end ? 2
           : next == Loader::Next::end       ? 3
                                             : 0;
  });
}

void sluice_close(sluice_loader* l) {
  if (l && l->opened_by == ::getpid()) delete l;
}

int sluice_fields(const sluice_batch* b) { return static_cast<int>(b->taken.fields.size()); }

const char* sluice_field(const sluice_batch* b, int i) {
  return guarded(static_cast<const char*>(nullptr),
                 [&] { return b->taken.fields.at(static_cast<std::size_t>(i)).name.c_str(); });
}

DLManagedTensor* sluice_tensor(const sluice_batch* b, int i) {
  error.clear();
  return guarded(static_cast<DLManagedTensor*>(nullptr), [&]() -> DLManagedTensor* {
    const at::Tensor& tensor = b->taken.fields.at(static_cast<std::size_t>(i)).tensor;
    return tensor.defined() ? at::toDLPack(tensor) : nullptr;
  });
}

void sluice_taken(sluice_batch* b) {
  for (Taken::Field& f : b->taken.fields) f.tensor = at::Tensor();
}

const char* sluice_meta(const sluice_batch* b) {
  return guarded(static_cast<const char*>(nullptr), [&] {
    Json j = {{"name", b->taken.name},
              {"names", b->taken.members},
              {"epoch", b->taken.stamp.epoch},
              {"index", b->taken.stamp.index},
              {"fields", Json::object()}};
    for (const Taken::Field& f : b->taken.fields) j["fields"][f.name] = meta_of(f.meta);
    return kept(dump(j));
  });
}

void sluice_free(sluice_batch* b) { delete b; }

const char* sluice_state(sluice_loader* l) {
  return guarded(static_cast<const char*>(nullptr), [&] {
    require_own(*l);
    return kept(dump(l->loader.state()));
  });
}

const char* sluice_profile(sluice_loader* l) {
  error.clear();
  return guarded(static_cast<const char*>(nullptr), [&]() -> const char* {
    require_own(*l);
    const Json found = l->loader.profile();
    return found.is_null() ? nullptr : kept(dump(found));
  });
}

const char* sluice_messages() { return kept(Messages::global().take()); }

const char* sluice_error() { return kept(error); }
