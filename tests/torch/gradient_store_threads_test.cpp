#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "gradstore/gradient_store.h"
#include "torch/gradient_store_contents.h"

namespace gradstore {
namespace {

constexpr std::int64_t kGroup = 0;
constexpr int kNumWriters = 3;
constexpr int kParamsEach = 200;
constexpr int kAddsEach = 5;

at::Tensor slice_of(std::int64_t numel, double value = 1) { return at::full({numel}, value); }

class GradientStoreThreadsTest : public ::testing::Test {
 protected:
  // Each writer appends its own params and adds to them, while `read` is called over and over.
  template <typename Read>
  void write_while(Read read) {
    std::latch start(kNumWriters + 1);
    std::atomic<int> num_writing = kNumWriters;
    std::vector<std::thread> writers;
    for (int writer = 0; writer < kNumWriters; ++writer) {
      writers.emplace_back([&, writer] {
        start.arrive_and_wait();
        for (int i = 0; i < kParamsEach; ++i) {
          const std::int64_t param = writer * kParamsEach + i;
          store_.append_gradients_by_param_id(slice_of(8), kGroup, param);
          for (int add = 0; add < kAddsEach; ++add) {
            store_.add_gradients_by_param_id(slice_of(8), 0, kGroup, param);
          }
        }
        --num_writing;
      });
    }
    start.arrive_and_wait();
    do {
      read();
    } while (num_writing > 0);
    for (auto& writer : writers) writer.join();
  }

  GradientStore store_;
};

TEST_F(GradientStoreThreadsTest, WritersOfDistinctParamsAndAReaderDoNotDisturbEachOther) {
  std::size_t num_seen = 0;
  write_while([&] {
    const auto grads = store_.get_working_grads_by_group_id(kGroup);
    EXPECT_GE(grads.size(), num_seen);
    num_seen = grads.size();
    if (grads.empty()) return;
    const auto param = store_.get_param_id_for_grad(grads.back());
    ASSERT_TRUE(param);
    EXPECT_TRUE(store_.get_working_grad_by_param_id(*param)->is_same(grads.back()));
  });

  const auto grads = store_.get_working_grads_by_group_id(kGroup);
  ASSERT_EQ(grads.size(), static_cast<std::size_t>(kNumWriters * kParamsEach));
  for (const at::Tensor& grad : grads) ASSERT_TRUE(at::equal(grad, slice_of(8, 1 + kAddsEach)));
}

TEST_F(GradientStoreThreadsTest, ContentsStandStillWhileTheyAreLookedAt) {
  write_while([&] {
    GradientStoreAccess::with_contents(store_, [](const GradientStoreView& view) {
      if (view.groups.empty()) return;
      const std::size_t num_params = view.groups[0].params.size();
      if (num_params == 0) return;
      const at::Tensor& last = view.groups[0].params.back().slices.back().tensor;
      const at::Tensor copy = last.clone();
      std::this_thread::yield();
      EXPECT_EQ(view.groups[0].params.size(), num_params);
      EXPECT_TRUE(at::equal(last, copy));
    });
  });
}

TEST_F(GradientStoreThreadsTest, EveryMutatorWaitsUntilTheCallbackReturns) {
  store_.append_gradients_by_param_id(slice_of(1), kGroup, 1);
  const std::vector<void (*)(GradientStore&)> mutators{
      [](GradientStore& store) { store.append_gradients_by_param_id(slice_of(1), kGroup, 2); },
      [](GradientStore& store) { store.add_gradients_by_param_id(slice_of(1), 0, kGroup, 1); },
      [](GradientStore& store) { store.register_param(3, "w", kGroup, slice_of(1)); },
      [](GradientStore& store) { store.reset_grads_by_group_id(kGroup); },
      [](GradientStore& store) { store.reset_all_gradients(); },
      [](GradientStore& store) { GradientStoreAccess::replace_contents(store, {}); },
  };
  for (std::size_t i = 0; i < mutators.size(); ++i) {
    SCOPED_TRACE(i);
    std::latch about_to_mutate(1);
    std::atomic<bool> mutated = false;
    std::thread mutator;
    GradientStoreAccess::with_contents(store_, [&](const GradientStoreView&) {
      mutator = std::thread([&] {
        about_to_mutate.count_down();
        mutators[i](store_);
        mutated = true;
      });
      about_to_mutate.wait();
      for (int turn = 0; turn < 2000; ++turn) std::this_thread::yield();
      EXPECT_FALSE(mutated);
    });
    mutator.join();
    EXPECT_TRUE(mutated);
  }
}

}  // namespace
}  // namespace gradstore
