// Whatever a training job can hold comes back, bit for bit: dtypes, strides, sparse tensors,
// tensors over shared memory. What cannot be stored is refused by name.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "archive/store_view.h"
#include "core/layout.h"
#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "support/fails_with.h"
#include "support/temp_dir.h"
#include "torch/dtype_map.h"

namespace gradstore {
namespace {

using ::testing::ElementsAre;
using testing::fails_with;

// The logical elements in row-major order, copied one by one: works for every dtype, and does
// without LibTorch's kernels.
std::string bytes_of(const at::Tensor& tensor) {
  const auto size = static_cast<std::size_t>(tensor.element_size());
  std::string bytes(static_cast<std::size_t>(tensor.numel()) * size, '\0');
  const auto* data = static_cast<const char*>(tensor.const_data_ptr());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (auto d = tensor.dim() - 1; d >= 0; --d) {
      offset += rest % tensor.size(d) * tensor.stride(d);
      rest /= tensor.size(d);
    }
    bytes.replace(static_cast<std::size_t>(i) * size, size,
                  data + static_cast<std::size_t>(offset) * size, size);
  }
  return bytes;
}

::testing::AssertionResult same(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.scalar_type() != expected.scalar_type()) {
    return ::testing::AssertionFailure() << "dtype " << at::toString(actual.scalar_type());
  }
  if (actual.sizes() != expected.sizes()) return ::testing::AssertionFailure() << actual.sizes();
  if (actual.layout() != expected.layout()) return ::testing::AssertionFailure() << "layout";
  if (!expected.is_sparse()) {
    if (bytes_of(actual) == bytes_of(expected)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "bits differ";
  }
  if (actual.is_coalesced() != expected.is_coalesced()) {
    return ::testing::AssertionFailure() << "coalesced: " << actual.is_coalesced();
  }
  const auto indices = same(actual._indices(), expected._indices());
  return indices ? same(actual._values(), expected._values()) : indices;
}

using Named = std::vector<std::pair<std::string, at::Tensor>>;

class TensorKindsTest : public ::testing::Test {
 protected:
  void fill(GradientStore& gradients, const Named& tensors) {
    std::int64_t id = 0;
    for (const auto& [name, tensor] : tensors) {
      gradients.register_param(++id, {name, 0, tensor.sizes().vec(), tensor.scalar_type()});
      gradients.append_gradients_by_param_id(tensor, 0, id);
    }
  }

  // Stores `tensors` as gradients and as companion state; restores and reads both.
  void expect_round_trip(const Named& tensors) {
    GradientStore gradients;
    fill(gradients, tensors);
    const auto ticket = store_->snapshot(gradients, {}, {tensors, "{}"});
    ticket.wait();
    store_->restore(ticket.id(), gradients);
    const auto restored = gradients.get_working_grads_by_group_id(0);
    const auto state = store_->read_state(ticket.id());
    ASSERT_EQ(restored.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& [name, tensor] = tensors[i];
      EXPECT_TRUE(same(restored[i], tensor)) << "restored: " << name;
      EXPECT_TRUE(same(state.at(name), tensor)) << "state: " << name;
      EXPECT_TRUE(same(store_->read(ticket.id(), name), tensor)) << "read: " << name;
    }
    ASSERT_TRUE(store_->latest_good());
    EXPECT_EQ(store_->latest_good()->id, ticket.id());
  }

  archive::FileReader reader(SnapshotId id) {
    return archive::StoreView(dir_ / "store").open_rank(0).open_gradients(id);
  }

  testing::TempDir dir_;
  std::unique_ptr<SnapshotStore> store_ = SnapshotStore::open(dir_ / "store");
};

std::vector<at::ScalarType> all_scalar_types() {
  std::vector<at::ScalarType> all;
  for (int type = 0; type < static_cast<int>(at::ScalarType::Undefined); ++type) {
    all.push_back(static_cast<at::ScalarType>(type));
  }
  return all;
}

TEST_F(TensorKindsTest, EveryScalarTypeOfLibTorchButTheQuantisedIsStored) {
  for (const auto type : all_scalar_types()) {
    EXPECT_EQ(dtype_of(type).has_value(), !at::isQIntType(type)) << at::toString(type);
    if (!dtype_of(type)) continue;
    EXPECT_EQ(scalar_type_of(*dtype_of(type)), type);
    EXPECT_EQ(size_of(*dtype_of(type)), c10::elementSize(type)) << at::toString(type);
  }
  for (std::uint8_t code = 1; dtype_from_code(code); ++code) {
    EXPECT_EQ(dtype_of(scalar_type_of(*dtype_from_code(code))), dtype_from_code(code));
  }
}

TEST_F(TensorKindsTest, EveryScalarTypeRoundTripsInEveryShape) {
  Named tensors;
  for (const auto type : all_scalar_types()) {
    if (at::isQIntType(type)) continue;
    const std::string name = at::toString(type);
    const auto largest = type == at::kBool ? 2 : 256;
    const auto bits = at::randint(0, largest, {1024}, at::kByte).view(type);
    tensors.emplace_back(name, bits);
    tensors.emplace_back(name + " strided", bits.slice(0, 1, 50, 3));
    tensors.emplace_back(name + " transposed", bits.slice(0, 0, 60).view({5, 12}).t());
    tensors.emplace_back(name + " scalar", bits.select(0, 3));
    tensors.emplace_back(name + " empty", bits.slice(0, 0, 0));
    tensors.emplace_back(name + " expanded", bits.slice(0, 7, 8).expand({9}));
  }
  expect_round_trip(tensors);
}

TEST_F(TensorKindsTest, QuantisedTensorsAreRefusedByName) {
  const auto quantised = at::quantize_per_tensor(at::randn({4}), 0.1, 3, at::kQInt8);
  GradientStore gradients;
  gradients.register_param(1, "scales", 0, at::zeros({4}));
  gradients.append_gradients_by_param_id(quantised, 0, 1);
  EXPECT_THAT([&] { store_->snapshot(gradients, {}); },
              fails_with(ErrorCode::invalid_argument, "\"scales\""));
  EXPECT_THAT([&] { store_->snapshot(gradients, {}); },
              fails_with(ErrorCode::invalid_argument, "QInt8 is quantised"));
  EXPECT_TRUE(store_->list().empty());
}

TEST_F(TensorKindsTest, ViewsWriteTheirLogicalElementsOnly) {
  const auto storage = at::randn({1'000'000});
  expect_round_trip(
      {{"view", storage.slice(0, 500, 537)},
       {"every seventh", storage.slice(0, 3, 900, 7)},
       {"diagonal", storage.slice(0, 0, 100).view({10, 10}).diagonal()},
       {"permuted", storage.slice(0, 0, 120).view({2, 3, 4, 5}).permute({3, 1, 0, 2})},
       {"channels last", at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)}});
  EXPECT_LT(store_->latest()->gradient_bytes, 4000u);
}

TEST_F(TensorKindsTest, LazyBitsAreResolved) {
  const auto z = at::complex(at::randn({4, 3}), at::randn({4, 3}));
  const auto conjugate = z.conj();
  const auto negative = at::_neg_view(at::randn({5}));
  const auto both = conjugate.t().slice(0, 1);
  const auto zero = at::_efficientzerotensor({3}, at::TensorOptions().dtype(at::kFloat));
  ASSERT_TRUE(conjugate.is_conj());
  ASSERT_TRUE(negative.is_neg());
  GradientStore gradients;
  fill(gradients,
       {{"conjugate", conjugate}, {"negative", negative}, {"both", both}, {"zero", zero}});
  const auto ticket = store_->snapshot(gradients, {});
  ticket.wait();
  EXPECT_TRUE(same(store_->read(ticket.id(), "conjugate"), conjugate.resolve_conj()));
  EXPECT_TRUE(same(store_->read(ticket.id(), "negative"), negative.resolve_neg()));
  EXPECT_TRUE(same(store_->read(ticket.id(), "both"), both.resolve_conj()));
  EXPECT_TRUE(same(store_->read(ticket.id(), "zero"), at::zeros({3})));
}

at::Tensor sparse_of(std::vector<std::int64_t> rows, const at::Tensor& values,
                     std::vector<std::int64_t> sizes) {
  auto indices = at::empty({1, static_cast<std::int64_t>(rows.size())}, at::kLong);
  std::ranges::copy(rows, indices.mutable_data_ptr<std::int64_t>());
  return at::sparse_coo_tensor(indices, values, sizes);
}

TEST_F(TensorKindsTest, SparseTensorsRoundTripCoalescedOrNot) {
  const auto uncoalesced = sparse_of({3, 1, 3, 9}, at::randn({4, 5}), {10, 5});
  ASSERT_FALSE(uncoalesced.is_coalesced());
  expect_round_trip({{"uncoalesced", uncoalesced},
                     {"coalesced", uncoalesced.coalesce()},
                     {"all dimensions", at::randn({4, 6}).to_sparse()},
                     {"without entries", sparse_of({}, at::empty({0, 5}), {10, 5})},
                     {"of empty rows", sparse_of({0, 1}, at::empty({2, 0}), {10, 0})},
                     {"bfloat16", uncoalesced.to(at::kBFloat16)},
                     {"complex", at::complex(at::randn({3}), at::randn({3})).to_sparse()},
                     {"without indices", at::sparse_coo_tensor(at::empty({0, 1}, at::kLong),
                                                               at::randn({1, 3}), {3})}});
}

TEST_F(TensorKindsTest, AParamMayBeSparseInOneSnapshotAndDenseInTheNext) {
  const auto sparse = sparse_of({1, 2}, at::randn({2, 5}), {10, 5});
  const auto dense = at::randn({10, 5});
  std::vector<SnapshotId> ids;
  GradientStore gradients;
  gradients.register_param(1, "embedding", 0, dense);
  const std::vector<at::Tensor> grads{sparse, dense, sparse.coalesce()};
  for (const auto& grad : grads) {
    gradients.reset_all_gradients();
    gradients.append_gradients_by_param_id(grad, 0, 1);
    const auto ticket = store_->snapshot(gradients, {});
    ticket.wait();
    ids.push_back(ticket.id());
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    store_->restore(ids[i], gradients);
    EXPECT_TRUE(same(*gradients.get_working_grad_by_param_id(1), grads[i])) << i;
  }
}

// Entries come and go with every batch: offsets and HDF5 metadata stay until the room is used up.
TEST_F(TensorKindsTest, LayoutOfASparseParamStaysWhileItsEntriesFitTheirRoom) {
  GradientStore gradients;
  gradients.register_param(1, "embedding", 0, at::zeros({100, 5}));
  std::vector<Digest128> layouts;
  for (const std::int64_t entries : {5, 8, 6, 9}) {
    gradients.reset_all_gradients();
    gradients.append_gradients_by_param_id(
        sparse_of(std::vector<std::int64_t>(static_cast<std::size_t>(entries), 7),
                  at::randn({entries, 5}), {100, 5}),
        0, 1);
    const auto ticket = store_->snapshot(gradients, {});
    ticket.wait();
    const auto file = reader(ticket.id());
    layouts.push_back(file.seal().layout.digest);
    EXPECT_EQ(file.fingerprints()[0].statistics.count, static_cast<std::uint64_t>(entries * 5));
  }
  EXPECT_EQ(layouts[0], layouts[1]);
  EXPECT_EQ(layouts[1], layouts[2]);
  EXPECT_NE(layouts[2], layouts[3]);
}

TEST_F(TensorKindsTest, AnAliasIsStoredOnceAndSharedAgain) {
  const auto weight = at::randn({1000, 100});
  const auto same_view = weight.view({1000, 100});
  GradientStore gradients;
  fill(gradients, {{"embed", weight}, {"head", same_view}, {"other", at::randn({1000, 100})}});
  const auto ticket = store_->snapshot(gradients, {}, {{{"a", weight}, {"b", same_view}}, "{}"});
  ticket.wait();
  EXPECT_LT(store_->latest()->file_bytes, 2u * 400'000 + 100'000);
  EXPECT_LT(store_->latest()->state_file_bytes, 400'000u + 100'000);

  store_->restore(ticket.id(), gradients);
  const auto embed = *gradients.get_working_grad_by_param_id(1);
  const auto head = *gradients.get_working_grad_by_param_id(2);
  EXPECT_TRUE(same(embed, weight));
  EXPECT_TRUE(same(head, weight));
  embed.add_(1);
  EXPECT_TRUE(same(head, embed));
  EXPECT_EQ(gradients.get_param_id_for_grad(embed), 1);
  EXPECT_EQ(gradients.get_param_id_for_grad(head), 2);

  const auto state = store_->read_state(ticket.id());
  state.at("a").fill_(7);
  EXPECT_TRUE(same(state.at("b"), state.at("a")));
  EXPECT_TRUE(same(store_->read(ticket.id(), "head"), weight));
}

TEST_F(TensorKindsTest, AnAliasComesBackWithoutTheParamThatItShares) {
  const auto weight = at::randn({10});
  GradientStore gradients;
  fill(gradients, {{"embed", weight}, {"head", weight}});
  const auto ticket = store_->snapshot(gradients, {});
  ticket.wait();
  GradientStore target;
  target.register_param(9, "head", 0, weight);
  store_->restore(ticket.id(), target, {.partial = true});
  EXPECT_TRUE(same(*target.get_working_grad_by_param_id(9), weight));
}

TEST_F(TensorKindsTest, ASparseAliasIsTheSameTensorAgain) {
  const auto sparse = sparse_of({1, 2}, at::randn({2, 5}), {10, 5});
  GradientStore gradients;
  fill(gradients, {{"one", sparse}, {"two", sparse}});
  const auto ticket = store_->snapshot(gradients, {});
  ticket.wait();
  store_->restore(ticket.id(), gradients);
  EXPECT_TRUE(same(*gradients.get_working_grad_by_param_id(1), sparse));
  EXPECT_TRUE(gradients.get_working_grad_by_param_id(1)->is_same(
      *gradients.get_working_grad_by_param_id(2)));
}

TEST_F(TensorKindsTest, PartialOverlapsAreStoredWholeAndListed) {
  const auto flat = at::randn({100});
  GradientStore gradients;
  fill(gradients, {{"first", flat.slice(0, 0, 50)},
                   {"second", flat.slice(0, 50, 100)},
                   {"middle", flat.slice(0, 40, 60)},
                   {"other shape", flat.slice(0, 0, 50).view({5, 10})}});
  const auto ticket = store_->snapshot(gradients, {});
  ticket.wait();
  const auto file = reader(ticket.id());
  for (const auto& slice : file.layout().slices) EXPECT_FALSE(slice.alias_of);
  EXPECT_THAT(
      file.manifest().overlapping_slices,
      ElementsAre(std::pair(0u, 3u), std::pair(0u, 2u), std::pair(2u, 3u), std::pair(1u, 2u)));
  store_->restore(ticket.id(), gradients);
  EXPECT_TRUE(same(*gradients.get_working_grad_by_param_id(3), flat.slice(0, 40, 60)));
}

TEST_F(TensorKindsTest, TensorsWithoutDataAreRefusedByName) {
  const auto expect_refused = [&](const at::Tensor& tensor, const std::string& why) {
    CompanionState state{{{"odd one", tensor}}, "{}"};
    EXPECT_THAT([&] { store_->snapshot(GradientStore(), {}, state); },
                fails_with(ErrorCode::invalid_argument, "\"odd one\""));
    EXPECT_THAT([&] { store_->snapshot(GradientStore(), {}, state); },
                fails_with(ErrorCode::invalid_argument, why));
  };
  expect_refused(at::empty({4}, at::TensorOptions().device(at::kMeta)), "meta");
  expect_refused(at::Tensor(), "undefined");
  expect_refused(at::randn({3, 3}).to_sparse_csr(), "SparseCsr");
  expect_refused(at::_nested_tensor_from_tensor_list({at::randn({2}), at::randn({3})}), "nested");
  const auto freed = at::randn({1000});  // As sharding frameworks do with what they gathered.
  freed.storage().unsafeGetStorageImpl()->set_nbytes(std::size_t{0});
  expect_refused(freed, "freed (0 of 4000 bytes");
  EXPECT_TRUE(store_->list().empty());
}

}  // namespace
}  // namespace gradstore
