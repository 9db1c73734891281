// Ranks that are threads of one process: a wire without sockets.
#pragma once

#include <atomic>
#include <barrier>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/group/wire.h"

namespace sluice {

class ThreadWires {
 public:
  explicit ThreadWires(int size) : size_(size), barrier_(size) {
    for (int r = 0; r < size; ++r) wires_.push_back(std::make_unique<One>(*this, r));
  }
  Wire& operator[](int rank) { return *wires_[static_cast<std::size_t>(rank)]; }

  // Bytes that went from a rank to others, of all.
  std::uint64_t carried() const { return carried_; }

  // Calls work(rank) on a thread for each rank.
  template <class Work>
  void each(const Work& work) {
    std::vector<std::thread> threads;
    for (int r = 0; r < size_; ++r) threads.emplace_back([&, r] { work(r); });
    for (auto& t : threads) t.join();
  }

 private:
  class One final : public Wire {
   public:
    One(ThreadWires& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }
    void gather(std::span<const std::byte> mine, std::span<std::byte> everyones) override {
      all_.bytes_[static_cast<std::size_t>(rank_)] = mine;
      all_.carried_ += mine.size() * static_cast<std::size_t>(all_.size_ - 1);
      all_.barrier_.arrive_and_wait();
      std::byte* next = everyones.data();
      for (const auto& part : all_.bytes_) {
        std::memcpy(next, part.data(), part.size());
        next += part.size();
      }
      all_.barrier_.arrive_and_wait();
    }
    void exchange(std::span<const std::byte> out, std::span<const std::size_t> to,
                  std::span<std::byte> in, std::span<const std::size_t> from) override {
      all_.sent_[static_cast<std::size_t>(rank_)] = {out.data(), to};
      all_.carried_ += out.size() - to[static_cast<std::size_t>(rank_)];
      all_.barrier_.arrive_and_wait();
      std::byte* next = in.data();
      for (std::size_t r = 0; r < from.size(); ++r) {
        const Sent& sent = all_.sent_[r];
        const std::byte* begin = sent.bytes;
        for (int other = 0; other < rank_; ++other)
          begin += sent.to[static_cast<std::size_t>(other)];
        if (sent.to[static_cast<std::size_t>(rank_)] != from[r]) std::terminate();
        if (from[r] > 0) std::memcpy(next, begin, from[r]);
        next += from[r];
      }
      all_.barrier_.arrive_and_wait();
    }
    Collectives& channel(const std::string& name) override {
      const std::lock_guard lock(all_.mutex_);
      auto& made = all_.channels_[name];
      if (!made) made = std::make_unique<ThreadWires>(all_.size_);
      return (*made)[rank_];
    }
    void put(const std::string& name, const std::string& text) override {
      const std::lock_guard lock(all_.mutex_);
      all_.texts_[name] = text;
    }
    std::string get(const std::string& name) override {
      while (!has(name)) std::this_thread::yield();
      const std::lock_guard lock(all_.mutex_);
      return all_.texts_[name];
    }
    bool has(const std::string& name) override {
      const std::lock_guard lock(all_.mutex_);
      return all_.texts_.contains(name);
    }
    void remove(const std::string& name) override {
      const std::lock_guard lock(all_.mutex_);
      all_.texts_.erase(name);
    }
    void end(const std::string&) override {}

   private:
    ThreadWires& all_;
    const int rank_;
  };
  struct Sent {
    const std::byte* bytes = nullptr;
    std::span<const std::size_t> to;
  };

  const int size_;
  std::barrier<> barrier_;
  std::vector<std::unique_ptr<One>> wires_;
  std::vector<std::span<const std::byte>> bytes_ =
      std::vector<std::span<const std::byte>>(static_cast<std::size_t>(size_));
  std::vector<Sent> sent_ = std::vector<Sent>(static_cast<std::size_t>(size_));
  std::atomic<std::uint64_t> carried_{0};
  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, std::unique_ptr<ThreadWires>> channels_;
};

}  // namespace sluice
