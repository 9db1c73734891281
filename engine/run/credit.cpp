#include "engine/run/credit.h"

#include <thread>

namespace sluice {

Token::~Token() {
  if (pool_) pool_->give_back();
}

Credit join(const Credit& a, const Credit& b) {
  if (!a || a == b) return b;
  if (!b) return a;
  return std::make_shared<const Token>(a, b);
}

Credit until_done(const Credit& credit, const Stream* stream) {
  if (!credit) return nullptr;
  if (credit->pool_) return credit->pool_->until_queued == stream ? nullptr : credit;
  const Credit a = until_done(credit->first_, stream), b = until_done(credit->second_, stream);
  return a == credit->first_ && b == credit->second_ ? credit : join(a, b);
}

Credit CreditPool::try_take() {
  int n = free_.load();
  do {
    if (n == 0) return nullptr;
  } while (!free_.compare_exchange_weak(n, n - 1));
  const int out = total_ - n + 1;
  int most = most_out_.load();
  while (out > most && !most_out_.compare_exchange_weak(most, out)) {
  }
  return std::make_shared<const Token>(shared_from_this());
}

// No mutex: on_return may drop further packets and come back here on the same thread.
void CreditPool::give_back() {
  free_.fetch_add(1);
  calling_.fetch_add(1);
  if (!closed_.load()) on_return_();
  calling_.fetch_sub(1);
}

void CreditPool::close() {
  closed_.store(true);
  while (calling_.load() != 0) std::this_thread::yield();
}

}  // namespace sluice
