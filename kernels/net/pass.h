// One pass of a network over a batch: how the batch is cut into frames, on which thread or device
// each runs, what they share, and how their gradients come together. A network in stages is done
// stage by stage, frame by frame; where it has several devices, each does its stages of a frame as
// soon as the one before has done its own:
//
//   device 0   F0 F1 F2 F3 ·  ·             ·  ·  B0 B1 B2 B3
//   device 1   ·  F0 F1 F2 F3 ·    (loss)   ·  B0 B1 B2 B3 ·
//   device 2   ·  ·  F0 F1 F2 F3            B0 B1 B2 B3 ·  ·
//
// The first device is the network's. Another one has copies of what its steps read, sends home what
// they change, and takes over values, and gradients on the way back, as places.h says.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "kernels/net/host_store.h"
#include "kernels/net/net.h"
#include "kernels/net/places.h"
#include "kernels/net/ready.h"
#include "kernels/net/stages.h"

namespace sluice {

using Replicas = std::vector<std::shared_ptr<const Replica>>;  // by place

class OpenPass;

class Pass {
 public:
  using Tensors = Net::Tensors;

  // x[i] requires a gradient where the network's input i has one to be given.
  Pass(Net& net, const Tensors& x, std::size_t outputs, bool training, bool keep,
       std::uint64_t key);
  ~Pass();
  Tensors forward(const Tensors& x);
  // The gradients of the inputs, then of the parameters, that are needed, from those of the
  // outputs; undefined ones stand for zero.
  Tensors backward(const Tensors& grads, const std::vector<bool>& needed);
  // Throws where a weight has been changed since the forward pass: gradients would be of neither.
  void require_same_weights() const;

  // Of the last pass with a backward one; null: there was none.
  static const std::vector<Step::Size>* planned_sizes(const Net& net) {
    return net.planned_.schedule ? &net.planned_.of_inputs : nullptr;
  }
  static std::vector<StageFigures> figures(const Net& net);
  static Net::Memory memory_in_stages(const Net& net);
  static std::int64_t frames(const Net& net) { return net.planned_.count.frames; }
  static Prepared& shared(const Net& net) { return *net.prepared_; }

 private:
  static const Stages& stages(const Net& net, const Schedule& schedule,
                              const std::vector<Step::Size>& of_inputs);
  bool is_mostly_weights() const;
  void cut(const at::Tensor& x);
  void plan();
  template <class Begin, class Body, class End>
  void each_frame(const Begin& begin, const Body& body, const End& end);
  enum class Way { forward, backward };
  template <class Begin, class Body, class End>
  void each_part(Way way, const Begin& begin, const Body& body, const End& end);
  Frame& frame(std::size_t i, int stage) { return frames_[i * stages_.all.size() + stage]; }
  std::size_t frame_count() const { return bounds_.size() - 1; }
  // The first of the frames that a thread does alone.
  std::size_t first_of(int thread) const { return alone_ * thread / threads_; }
  bool is_last_of(int thread, std::size_t frame) const {
    return frame + 1 ==
           (thread == 0 && alone_ < frame_count() ? frame_count() : first_of(thread + 1));
  }
  void take_values(std::size_t i, int stage, int thread, const Tensors& x);
  void take_grads(std::size_t i, int stage);
  void hand_back_grads(std::size_t i, int stage, const Tensors& out);
  void forward_frame(Frame& f, int stage);
  void run(const Step& s, Frame& f) const;
  void let_go(int value, Frame& f, int stage);
  // What the i-th step from the end reads, and the start of what the next ones will.
  void bring_back(std::size_t i, Frame& f);
  HostStore& store_of(const Frame& f) { return stores_[&f - frames_.data()]; }
  void make_again(int step, Frame& f) const;
  void prepare_backward(const Step& s, Frame& f) const;
  bool drops_saved(const Step& s) const;
  // An output that is an input, or is not computed, is the first stage's.
  bool is_made_in(int value, int stage) const { return std::max(stages_.maker[value], 0) == stage; }
  // Whether it outlives the stage's forward pass: for the backward one, or for a stage after it.
  bool stays(int value, int stage) const {
    return (keep_ && retained_[stage][value]) ||
           (stages_.at[value].size() > 1 && stages_.at[value].front() == stage);
  }
  void backward_frame(std::size_t frame, int stage, int thread, const Tensors& grads);
  void listen();
  void pass_step(int step);
  void want(const std::vector<bool>& needed);
  void count_kept(const Frame& f, int stage) const;

  at::Tensor room(const std::vector<std::int64_t>& size, at::Device device) const;
  at::Tensor part(const at::Tensor& t, std::size_t frame) const;
  Tensors parts(const Tensors& all, std::size_t frame) const;
  at::Tensor to_compute(const at::Tensor& t) const;

  // On other devices.
  bool away(int thread) const { return spread_ && thread > 0; }
  at::Device place(int thread) const;
  at::Tensor brought(const at::Tensor& t, int thread) const;
  int workers() const { return std::max(threads_, lanes_); }
  // Of `lanes` each does the stages count * lane / lanes to count * (lane + 1) / lanes.
  static int place_of(int stage, int lanes, int stages) {
    return ((stage + 1) * lanes - 1) / stages;
  }
  int place_of(int stage) const { return place_of(stage, lanes_, stages_.size()); }
  static void check_lanes(const Net& net, const Stages& stages, int lanes);
  bool crosses(int from, int to) const { return place_of(from) != place_of(to); }
  bool is_done_by(const Step& s, int thread) const {
    return lanes_ == 1 || place_of(stages_.of_step[s.number]) == thread;
  }
  bool may_keep_copies() const { return !keep_ && !training_; }
  std::vector<Packed> packed();
  std::vector<at::Tensor> read_by(int thread) const;
  std::shared_ptr<const Replica> copied(const Packed& weights, int thread) const;
  std::shared_ptr<const Replica> own();
  std::shared_ptr<const Replica> prepared(Replica r, int thread) const;
  void send_statistics(int thread) const;
  void send_grads(int thread, const Packed& home) const;

  Net& net_;
  const Schedule& schedule_;
  const bool training_, keep_;
  bool timed_ = false;  // on the host
  Replicas replicas_;   // the network's own, then those of other places
  const std::vector<Step::Size> input_sizes_;
  std::vector<std::int64_t> versions_;  // of the parameters, where there is a backward pass
  const Stages& stages_;
  std::vector<Frame> frames_;         // the first one's stages, then the second one's
  std::vector<HostStore> stores_;     // by frame: what the memory plan has wait on the host
  int lanes_ = 1;                     // devices that take stages
  std::vector<std::int64_t> bounds_;  // frame i holds samples bounds_[i] .. bounds_[i+1]-1
  int threads_ = 1;
  std::size_t alone_ =
      0;  // frames of which each is one thread's; those after them are all threads'
  // Where each thread has a place, and each place one frame, or in stages a lane. Null: one device.
  std::shared_ptr<Spread> spread_;
  std::vector<std::vector<at::Tensor>> parameter_grads_;  // by thread
  // Who is told of gradients during the backward pass; null: nobody.
  const ReadyScope::Tell* ready_ = nullptr;
  std::vector<std::vector<int>> last_of_;  // by step: parameters that no step before it reads
  std::vector<std::atomic<int>> arrived_;  // by parameter: threads that are done with it
  std::unique_ptr<OpenPass> open_;
  Tensors results_;
  std::shared_ptr<const MemoryPlan> plan_;   // of a pass with a backward one
  std::vector<std::vector<bool>> retained_;  // by stage, by value: after the forward pass
  std::vector<int> makers_;                  // by value: the step
};

}  // namespace sluice
