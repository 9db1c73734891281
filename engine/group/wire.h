// What goes between the processes of a run, whoever carries it (state/gloo_wire.h; threads in
// tests).
//
// Two ways, which do not meet: collectives, of which those of one channel are called by one thread
// at a time and in the same order on every rank; and messages by name, from any thread. Both throw
// Error(peer) where a rank is gone.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sluice {

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Everyone's bytes to everyone, in ranks' order: all.size() == size() * mine.size().
  virtual void gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // To rank r go to[r] of the bytes in `out`, one rank's behind the other's; from rank r come
  // from[r] bytes into `in`.
  virtual void exchange(std::span<const std::byte> out, std::span<const std::size_t> to,
                        std::span<std::byte> in, std::span<const std::size_t> from) = 0;
};

class Wire : public Collectives {
 public:
  // Collectives in an order of their own. Every rank asks for the same ones, in the same order;
  // they live as long as the wire.
  virtual Collectives& channel(const std::string& name) = 0;

  virtual void put(const std::string& name, const std::string& text) = 0;
  virtual std::string get(const std::string& name) = 0;  // waits for it
  virtual bool has(const std::string& name) = 0;
  virtual void remove(const std::string& name) = 0;

  // The last call. `failed`: why this rank gives up, which the others repeat; "": it is done, and
  // waits until all are.
  virtual void end(const std::string& failed) = 0;
};

}  // namespace sluice
