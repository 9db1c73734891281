#include "engine/state/gloo_wire.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Logging.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <ranges>
#include <sstream>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/machine.h"

namespace sluice {
namespace {

using c10d::ProcessGroupGloo;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

milliseconds in_ms(double seconds) { return milliseconds(static_cast<long>(seconds * 1e3)); }

// A collective may wait for a rank that loads a slow volume or validates alone; who is dead is the
// control group's affair.
constexpr double collective_timeout_s = 1800;
constexpr milliseconds listening{50};

// Looks the master up before a store does, which tries a name that nobody knows until the time to
// join is over. A name server that does not answer is asked for some seconds more.
void require_known(const World& w) {
  const auto end = Clock::now() + std::chrono::seconds(5);
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  int problem = 0;
  while ((problem = getaddrinfo(w.master.c_str(), nullptr, &hints, &found)) == EAI_AGAIN &&
         Clock::now() < end)
    std::this_thread::sleep_for(milliseconds(200));
  if (problem == 0) return freeaddrinfo(found);
  throw Error(Exit::usage, (own_variable("MASTER_ADDR") ? "MASTER_ADDR " : "the host of rank 0, ") +
                               w.master + ": cannot be resolved: " + gai_strerror(problem));
}

// A thread that cannot be made says nothing of other ranks.
[[noreturn]] void fail_for_lack_of_threads(const std::system_error& e) {
  if (e.code() != std::errc::resource_unavailable_try_again) throw;
  throw Error(Exit::io,
              std::string("no further thread can be made: ") + e.code().message() + " (ulimit -u)");
}

// This rank's address as the master sees it: not MASTER_ADDR, which is the master's, and not that
// of the host's name, which Debian gives as 127.0.1.1.
std::string own_address(const World& w) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(w.master.c_str(), std::to_string(w.port).c_str(), &hints, &found) != 0)
    throw Error(Exit::usage, "the host of rank 0, \"" + w.master + "\", is not known here");
  std::string address;
  for (const addrinfo* a = found; a && address.empty(); a = a->ai_next) {
    const int s = socket(a->ai_family, a->ai_socktype, 0);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST];
    if (s >= 0 && connect(s, a->ai_addr, a->ai_addrlen) == 0 &&
        getsockname(s, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0)
      address = text;
    if (s >= 0) close(s);
  }
  freeaddrinfo(found);
  return address.empty() ? w.master : address;
}

std::shared_ptr<gloo::transport::Device> device_of(const World& w) {
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME"); interface && *interface)
    return ProcessGroupGloo::createDeviceForInterface(interface);
  return ProcessGroupGloo::createDeviceForHostname(own_address(w));
}

std::uint16_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

// The store waits for ever for a server that stays silent, and c10d has no setting for it, so this
// process's sockets to that port get a limit, after which c10d's reads and writes throw.
void limit_silence(int port, double seconds) {
  const timeval limit{static_cast<time_t>(seconds),
                      static_cast<suseconds_t>(1e6 * (seconds - std::floor(seconds)))};
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", unreadable)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || port_of(peer) != port)
      continue;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
}

class GlooWire final : public Wire {
 public:
  GlooWire(const World& w, const GlooOptions& options) : world_(w), options_(options) {
    setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);  // what fails is said by us
    c10::initLogging();
    try {
      join_all();
    } catch (const std::system_error& e) {
      fail_for_lack_of_threads(e);
    }
  }

  int rank() const override { return world_.rank; }
  int size() const override { return world_.size; }
  void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    data_->gather(mine, all);
  }
  void exchange(std::span<const std::byte> out, std::span<const std::size_t> to,
                std::span<std::byte> in, std::span<const std::size_t> from) override {
    data_->exchange(out, to, in, from);
  }
  Collectives& channel(const std::string& name) override {
    const std::lock_guard lock(channels_mutex_);
    auto& made = channels_[name];
    if (!made) made = std::make_unique<Channel>(*this, "data/" + name);
    return *made;
  }

  void put(const std::string& name, const std::string& text) override {
    asked([&] { store_->set(name, text); });
  }
  bool has(const std::string& name) override {
    bool there = false;
    asked([&] { there = store_->check({name}); });
    return there;
  }
  void remove(const std::string& name) override {
    asked([&] { store_->deleteKey(name); });
  }
  // A client's calls hold one lock, so none may wait inside of one.
  std::string get(const std::string& name) override {
    while (!has(name)) std::this_thread::sleep_for(milliseconds(2));
    std::string text;
    asked([&] { text = store_->get_to_str({name}); });
    return text;
  }

  void end(const std::string& failed) override {
    const auto all = [this](const char* what) {
      for (int r = 0; r < size(); ++r) get(what + std::to_string(r));
    };
    if (!failed.empty()) {
      try {
        put("wire/words", name_ + ": " + failed);
      } catch (const Error&) {
      }
      leaving_ = true;
      if (rank() == 0) std::this_thread::sleep_for(5 * listening);  // the words are in its store
      return;
    }
    put("wire/end/" + std::to_string(rank()), "");
    all("wire/end/");
    leaving_ = true;
    put("wire/bye/" + std::to_string(rank()), "");
    if (rank() == 0) all("wire/bye/");  // they need its store until then
  }

 private:
  class Channel final : public Collectives {
   public:
    Channel(GlooWire& wire, const std::string& name) : wire_(wire), group_(wire.group(name)) {}
    int rank() const override { return wire_.rank(); }
    int size() const override { return wire_.size(); }

    void gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
      // c10d's all-gather copies through lists: for much, messages are quicker.
      if (mine.size() < (1 << 16)) {
        at::Tensor out = over(all), in = over(mine);
        c10d::AllgatherOptions o;
        o.timeout = in_ms(collective_timeout_s);
        return wire_.done([&] { group_->_allgather_base(out, in, o)->wait(); });
      }
      messages([&](std::size_t) { return mine; },
               [&](std::size_t r) { return all.subspan(r * mine.size(), mine.size()); });
    }

    void exchange(std::span<const std::byte> out, std::span<const std::size_t> to,
                  std::span<std::byte> in, std::span<const std::size_t> from) override {
      const auto part = [](auto bytes, std::span<const std::size_t> sizes, std::size_t r) {
        const auto begin = std::accumulate(sizes.begin(), sizes.begin() + r, std::size_t{0});
        return bytes.subspan(begin, sizes[r]);
      };
      messages([&](std::size_t r) { return part(out, to, r); },
               [&](std::size_t r) { return part(in, from, r); });
    }

   private:
    // out(r) to rank r and in(r) from it, of all ranks at once. c10d's alltoall sends before it
    // says that it wants to receive; behind a slow link that word then waits until all is sent, and
    // both ways take turns (tools/bench/ring.py: 1.4 to 1.9 times as long).
    template <class Out, class In>
    void messages(const Out& out, const In& in) {
      const auto ranks = static_cast<std::size_t>(size()), own = static_cast<std::size_t>(rank());
      std::ranges::copy(out(own), in(own).begin());
      constexpr int tag = 0;
      wire_.done([&] {
        std::vector<c10::intrusive_ptr<c10d::Work>> all;
        for (std::size_t i = 1; i < ranks; ++i) {
          const std::size_t r = (own + ranks - i) % ranks;
          std::vector<at::Tensor> bytes{over(in(r))};
          if (bytes[0].numel() > 0) all.push_back(group_->recv(bytes, static_cast<int>(r), tag));
        }
        for (std::size_t i = 1; i < ranks; ++i) {
          const std::size_t r = (own + i) % ranks;
          std::vector<at::Tensor> bytes{over(out(r))};
          if (bytes[0].numel() > 0) all.push_back(group_->send(bytes, static_cast<int>(r), tag));
        }
        for (const auto& one : all) one->wait(in_ms(collective_timeout_s));
      });
    }
    static at::Tensor over(std::span<const std::byte> bytes) {
      return at::from_blob(const_cast<std::byte*>(bytes.data()),
                           {static_cast<std::int64_t>(bytes.size())}, at::kByte);
    }

    GlooWire& wire_;
    const c10::intrusive_ptr<ProcessGroupGloo> group_;
  };

  void join_all() {
    store_ = connect();
    limit_silence(world_.port, options_.peer_timeout_s);
    claim_place();
    name_ = "rank " + std::to_string(world_.rank) + " (" + host_name() + ")";
    put("wire/name/" + std::to_string(world_.rank), name_);
    await_all();
    data_ = std::make_unique<Channel>(*this, "data");
    control_ = group("control");
    watch_ = std::jthread([this] { watch(); });
    try {
      listen_ = std::jthread([this] { listen(); });
    } catch (...) {
      leaving_ = true;
      throw;
    }
  }

  c10::intrusive_ptr<c10d::Store> connect() const {
    c10d::TCPStoreOptions o;
    o.port = static_cast<std::uint16_t>(world_.port);
    o.isServer = world_.rank == 0 && !world_.store_is_there;
    if (o.isServer) o.masterListenFd = world_.listening;
    o.waitWorkers = false;
    o.numWorkers = static_cast<std::size_t>(world_.size);
    o.timeout = in_ms(options_.join_timeout_s);
    // It waits for ever for a host that takes connections and says nothing: on a thread that is
    // left behind then.
    std::promise<c10::intrusive_ptr<c10d::TCPStore>> made;
    auto store = made.get_future();
    std::thread([made = std::move(made), world = world_, o]() mutable {
      try {
        require_known(world);
        made.set_value(c10::make_intrusive<c10d::TCPStore>(world.master, o));
      } catch (...) {
        made.set_exception(std::current_exception());
      }
    }).detach();
    std::string why = "nothing came back";
    try {
      // The store gives up by itself where nobody takes the connection, and says more.
      if (await([&] { return store.wait_for(milliseconds(5)) == std::future_status::ready; }, 2))
        return c10::make_intrusive<c10d::PrefixStore>("sluice/" + world_.job, store.get());
    } catch (const Error&) {
      throw;
    } catch (const std::system_error& e) {
      fail_for_lack_of_threads(e);
    } catch (const std::exception& e) {
      why = first_line(e.what());
    }
    throw Error(Exit::peer,
                (o.isServer ? "port " + std::to_string(world_.port) + " cannot be served"
                            : server() + " does not answer at " + world_.master + ":" +
                                  std::to_string(world_.port)) +
                    ": " + why);
  }

  // A rank 0 that came to a port which was taken has left its others to the run that has it.
  void claim_place() {
    std::int64_t came = 0;
    asked([&] { came = store_->add("wire/came/" + std::to_string(rank()), 1); });
    if (came > 1)
      throw Error(Exit::peer, "rank " + std::to_string(rank()) + " is there already: port " +
                                  std::to_string(world_.port) + " of " + world_.master +
                                  " is another run's; give each run a MASTER_PORT of its own");
  }

  // Who serves the store.
  std::string server() const { return world_.store_is_there ? world_.launcher : "rank 0"; }

  // Whether it held before the time to join was over by `more` seconds.
  template <class Holds>
  bool await(Holds&& holds, double more = 0) const {
    const auto end = Clock::now() + in_ms(options_.join_timeout_s + more);
    while (!holds()) {
      if (const int signal = options_.signal ? options_.signal() : 0)
        throw Error(static_cast<Exit>(128 + signal), "ended before all processes were there");
      if (Clock::now() > end) return false;
    }
    return true;
  }

  // A launcher's processes may begin minutes apart; once all are there, they join at once.
  void await_all() {
    for (int r = 0; r < size(); ++r) {
      const bool came = await([&] {
        if (has("wire/name/" + std::to_string(r))) return true;
        std::this_thread::sleep_for(milliseconds(5));
        return false;
      });
      if (!came) throw Error(Exit::peer, "rank " + std::to_string(r) + " did not come");
    }
  }

  c10::intrusive_ptr<ProcessGroupGloo> group(const std::string& name) const {
    auto o = ProcessGroupGloo::Options::create(in_ms(options_.peer_timeout_s));
    o->threads = 2;
    o->devices.push_back(device_of(world_));
    try {
      return c10::make_intrusive<ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>(name, store_), world_.rank, world_.size, o);
    } catch (const std::system_error& e) {
      fail_for_lack_of_threads(e);
    } catch (const std::exception& e) {
      throw Error(Exit::peer, "the other ranks did not come: " + first_line(e.what()));
    }
  }

  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

  // Asked on a thread that is left behind where rank 0 hangs: it serves the store, and a store that
  // says nothing is waited for without an end.
  std::string who(const std::string& otherwise) {
    std::promise<std::string> said;
    auto answer = said.get_future();
    std::thread([this, otherwise, said = std::move(said)]() mutable {
      said.set_value(ask_who(otherwise));
    }).detach();
    const bool answers = answer.wait_for(std::chrono::seconds(3)) == std::future_status::ready;
    if (rank() == 0) std::this_thread::sleep_for(5 * listening);  // the others ask its store too
    return answers ? answer.get() : server() + " is gone, or hangs";
  }

  // Who failed: in its own words, or the one that notices nothing any more. Those who do answer at
  // once, so that the wait is short; a rank that is late by more is hung.
  std::string ask_who(const std::string& otherwise) {
    const auto noticed = [](int r) { return "wire/noticed/" + std::to_string(r); };
    try {
      put(noticed(rank()), "");
      put("wire/trouble", "");
      std::vector<int> silent;
      for (int i = 0; i < 75 && !leaving_; ++i) {
        if (has("wire/words")) return get("wire/words");
        silent.clear();
        for (int r = 0; r < size(); ++r)
          if (!has(noticed(r))) silent.push_back(r);
        if (silent.size() <= 1 && i >= 10) break;
        std::this_thread::sleep_for(milliseconds(20));
      }
      std::string names;
      for (const int r : silent)
        names += (names.empty() ? "" : ", ") + get("wire/name/" + std::to_string(r));
      if (names.empty()) return otherwise;
      names += " is gone, or hangs";
      put("wire/words", names);  // all say the same
      return names;
    } catch (const Error&) {
      return server() + " is gone";
    }
  }

  template <class Call>
  void done(const Call& call) {
    try {
      call();
    } catch (const std::exception& e) {
      throw Error(Exit::peer, "another process failed: " + who(first_line(e.what())));
    }
  }
  template <class Ask>
  void asked(const Ask& ask) {
    const std::lock_guard lock(mutex_);
    // An answer that comes late would be taken for the next one's.
    if (is_silent_) fail_for_silence();
    const auto begin = Clock::now();
    try {
      ask();
    } catch (const std::exception& e) {
      is_silent_ = Clock::now() - begin >= in_ms(options_.peer_timeout_s);
      if (is_silent_) fail_for_silence();
      throw Error(Exit::peer, server() + " is gone: " + first_line(e.what()));
    }
  }
  [[noreturn]] void fail_for_silence() const {
    std::ostringstream text;
    text << server() << " is gone, or hangs: it has not answered for " << options_.peer_timeout_s
         << " s";
    throw Error(Exit::peer, text.str());
  }

  // Hears the last words of others.
  void listen() {
    while (!leaving_) {
      std::this_thread::sleep_for(listening);
      try {
        if (!leaving_ && (has("wire/words") || has("wire/trouble")))
          return tell_lost(who("another rank ended"));
      } catch (const Error& e) {
        if (is_silent_) tell_lost(e.what());
        return;  // of one that is gone the control group says it
      }
    }
  }

  void tell_lost(const std::string& who) {
    if (!leaving_.exchange(true) && options_.lost) options_.lost(who);
  }

  // Says once a second that this rank lives, and hears of the others.
  void watch() {
    while (!leaving_) {
      try {
        c10d::BarrierOptions o;
        o.timeout = in_ms(options_.peer_timeout_s);
        control_->monitoredBarrier(o, true);
      } catch (const std::exception& e) {
        return tell_lost(who(first_line(e.what())));
      }
      for (int i = 0; i < 50 && !leaving_; ++i) std::this_thread::sleep_for(milliseconds(20));
    }
  }

  const World world_;
  const GlooOptions options_;
  std::string name_;
  std::mutex mutex_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<ProcessGroupGloo> control_;
  std::unique_ptr<Channel> data_;
  std::mutex channels_mutex_;
  std::map<std::string, std::unique_ptr<Channel>> channels_;
  std::atomic<bool> leaving_{false}, is_silent_{false};
  std::jthread watch_, listen_;
};

}  // namespace

// A group's destructor may wait for ranks that are gone, so the wire lives as long as the process.
Wire* join_gloo(const World& world, const GlooOptions& options) {
  return new GlooWire(world, options);
}

}  // namespace sluice
