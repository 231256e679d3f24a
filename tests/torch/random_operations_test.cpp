// Random calls against a model that keeps plain copies: after every restore the store holds what it
// held when the snapshot was taken, in the same order, whatever happened in between.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <concepts>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "support/temp_dir.h"
#include "torch/gradient_store_contents.h"

namespace gradstore {
namespace {

using Random = std::mt19937_64;

// A store's contents in text form: order, ids, dtypes, shapes, ranges and bits.
std::string contents_of(const GradientStore& store) {
  std::string text;
  GradientStoreAccess::with_contents(store, [&text](const GradientStoreView& view) {
    for (const auto& group : view.groups) {
      text += "group " + std::to_string(group.group_id) + "\n";
      for (const auto& param : group.params) {
        text += " param " + std::to_string(param.param_id) + "\n";
        for (const auto& [tensor, range] : param.slices) {
          text += std::string("  ") + at::toString(tensor.scalar_type()) + " " +
                  std::to_string(range.begin) + ".." + std::to_string(range.end) + "+" +
                  std::to_string(range.padding) + " ";
          for (const auto size : tensor.sizes()) text += std::to_string(size) + ",";
          const auto plain = tensor.contiguous();
          text.append(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
          text += "\n";
        }
      }
    }
  });
  return text;
}

class RandomJob {
 public:
  RandomJob(std::uint64_t seed, const std::filesystem::path& directory)
      : random_(seed), directory_(directory) {
    const auto world_size = 1 + below(3);
    options_ = {world_size, below(world_size), below(2) == 0};
    gradients_ = std::make_unique<GradientStore>(options_);
    const auto num_params = 1 + below(6);
    for (std::int64_t id = 0; id < num_params; ++id) {
      shapes_.push_back(below(8) == 0 ? std::vector<std::int64_t>{}
                                      : std::vector<std::int64_t>{below(5), 1 + below(40)});
      dtypes_.push_back(kDTypes[static_cast<std::size_t>(below(std::size(kDTypes)))]);
    }
    register_params();
    store_ = SnapshotStore::open(directory_);
  }

  void step() {
    switch (below(12)) {
      case 0:
      case 1:
      case 2: return append();
      case 3:
      case 4:
      case 5: return add();
      case 6: return gradients_->reset_grads_by_group_id(below(kGroups));
      case 7: return below(4) == 0 ? gradients_->reset_all_gradients() : scribble();
      case 8:
      case 9: return snapshot();
      case 10: return restore();
      default: return below(3) == 0 ? reopen() : scribble();
    }
  }

  void check_all() {
    reopen();
    for (const auto& [id, contents] : taken_) {
      GradientStore fresh(options_);
      register_into(fresh);
      store_->restore(id, fresh);
      ASSERT_EQ(contents_of(fresh), contents) << to_string(id);
    }
  }

 private:
  static constexpr std::int64_t kGroups = 3;
  static constexpr at::ScalarType kDTypes[] = {at::kFloat,  at::kHalf, at::kBFloat16,
                                               at::kDouble, at::kLong, at::kByte};

  template <std::integral Bound>
  std::int64_t below(Bound bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }
  std::int64_t any_param() { return below(shapes_.size()); }
  static std::int64_t group_of(std::int64_t id) { return id % kGroups; }

  void register_into(GradientStore& store) const {
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const auto id = static_cast<std::int64_t>(i);
      store.register_param(id,
                           {"param " + std::to_string(i), group_of(id), shapes_[i], dtypes_[i]});
    }
  }
  void register_params() { register_into(*gradients_); }

  at::Tensor random_tensor(const std::vector<std::int64_t>& shape, at::ScalarType type) {
    auto tensor = at::empty(shape, type);
    auto* bytes = static_cast<unsigned char*>(tensor.mutable_data_ptr());
    for (std::size_t i = 0; i < tensor.nbytes(); ++i)
      bytes[i] = static_cast<unsigned char>(random_());
    return tensor;
  }

  void append() {
    const auto id = any_param();
    const auto index = static_cast<std::size_t>(id);
    auto tensor = random_tensor(shapes_[index], dtypes_[index]);
    if (tensor.dim() == 2 && below(4) == 0) tensor = tensor.t();
    gradients_->append_gradients_by_param_id(tensor, group_of(id), id);
  }
  void add() {
    const auto id = any_param();
    const auto slices = gradients_->get_partitioned_gradients_by_param_id(group_of(id), id);
    if (slices.empty()) return;
    const auto at = below(slices.size());
    const auto& slice = slices[static_cast<std::size_t>(at)];
    gradients_->add_gradients_by_param_id(random_tensor(slice.sizes().vec(), slice.scalar_type()),
                                          at, group_of(id), id);
  }
  // What clients do behind the store's back.
  void scribble() {
    const auto id = any_param();
    for (const auto& slice : gradients_->get_partitioned_gradients_by_param_id(group_of(id), id)) {
      slice.zero_();
    }
  }
  void snapshot() {
    const auto contents = contents_of(*gradients_);
    const auto ticket = store_->snapshot(*gradients_, {.step = taken_.size()});
    ASSERT_TRUE(taken_.empty() || ticket.id() > taken_.rbegin()->first);
    taken_[ticket.id()] = contents;
    if (below(2) == 0) {
      ticket.wait();
      ASSERT_EQ(store_->latest()->id, ticket.id());
    }
  }
  void restore() {
    if (taken_.empty()) return;
    auto chosen = taken_.begin();
    std::advance(chosen, below(taken_.size()));
    if (!store_->find(static_cast<std::uint64_t>(std::distance(taken_.begin(), chosen)), 0,
                      Stage::post_reduce)) {
      return;  // Still being written.
    }
    store_->restore(chosen->first, *gradients_);
    ASSERT_EQ(contents_of(*gradients_), chosen->second) << to_string(chosen->first);
  }
  void reopen() {
    store_->close();
    store_ = SnapshotStore::open(directory_);
    ASSERT_EQ(store_->list().size(), taken_.size());
  }

  Random random_;
  std::filesystem::path directory_;
  GradientStoreOptions options_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<at::ScalarType> dtypes_;
  std::unique_ptr<GradientStore> gradients_;
  std::unique_ptr<SnapshotStore> store_;
  std::map<SnapshotId, std::string> taken_;
};

std::uint64_t seed_of_this_run() {
  const char* seed = std::getenv("GRADSTORE_TEST_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

TEST(RandomOperationsTest, EveryRestoreGivesWhatTheSnapshotTook) {
  const int runs = std::getenv("GRADSTORE_TEST_LONG") == nullptr ? 10 : 200;
  for (int run = 0; run < runs; ++run) {
    const auto seed = seed_of_this_run() + static_cast<std::uint64_t>(run);
    SCOPED_TRACE("GRADSTORE_TEST_SEED=" + std::to_string(seed));
    testing::TempDir dir;
    RandomJob job(seed, dir / "store");
    for (int step = 0; step < 60 && !::testing::Test::HasFailure(); ++step) job.step();
    job.check_all();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace gradstore
