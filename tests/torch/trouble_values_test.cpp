// Values that compare unequal to themselves or equal to others: bits are what is kept.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gradstore/gradient_store.h"
#include "gradstore/snapshot_store.h"
#include "support/temp_dir.h"

namespace gradstore {
namespace {

template <typename Bits>
at::Tensor tensor_of(const std::vector<Bits>& bits, at::ScalarType type) {
  auto tensor = at::empty({static_cast<std::int64_t>(bits.size())}, type);
  std::memcpy(tensor.mutable_data_ptr(), bits.data(), tensor.nbytes());
  return tensor;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Signs, infinities, quiet and signalling NaNs with payloads, zeros of both signs, denormals.
at::Tensor odd_doubles() {
  return tensor_of<std::uint64_t>(
      {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000000,
       0x7ff80000deadbeef, 0x7ff0000000000001, 0xfff4000000012345, 0x8000000000000000, 0x0,
       0x0000000000000001, 0x800fffffffffffff, 0x7fefffffffffffff},
      at::kDouble);
}
at::Tensor odd_floats() {
  return tensor_of<std::uint32_t>(
      {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fc0beef, 0x7f800001, 0xffa12345,
       0x80000000, 0x0, 0x00000001, 0x807fffff, 0x7f7fffff},
      at::kFloat);
}
at::Tensor all_of_16_bits(at::ScalarType type) {
  std::vector<std::uint16_t> bits(1u << 16);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  return tensor_of(bits, type);
}

TEST(OddValuesTest, NanPayloadsInfinitiesAndMinusZeroComeBackBitForBitEverywhere) {
  const std::vector<std::pair<std::string, at::Tensor>> cases = {
      {"double", odd_doubles()},
      {"float", odd_floats()},
      {"half", all_of_16_bits(at::kHalf)},
      {"bfloat16", all_of_16_bits(at::kBFloat16)},
      {"every other one", all_of_16_bits(at::kHalf).slice(0, 1, 60'001, 2)},
      {"nothing but NaN", tensor_of(std::vector<std::uint32_t>(5000, 0x7fc00001), at::kFloat)},
  };
  GradientStore gradients;
  CompanionState state;
  std::int64_t id = 0;
  for (const auto& [name, tensor] : cases) {
    gradients.register_param(++id, name, 0, tensor);
    gradients.append_gradients_by_param_id(tensor, 0, id);
    state.tensors.emplace_back(name, tensor);
  }
  const testing::TempDir dir;
  auto store = SnapshotStore::open(dir / "store");
  const auto ticket = store->snapshot(gradients, {.step = 1}, state);
  ticket.wait();
  store->close();

  store = SnapshotStore::open(dir / "store");
  gradients.reset_all_gradients();
  store->restore(ticket.id(), gradients);
  const auto restored = gradients.get_working_grads_by_group_id(0);
  const auto restored_state = store->read_state(ticket.id());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [name, tensor] = cases[i];
    EXPECT_TRUE(same_bits(restored.at(i), tensor.contiguous())) << name;
    EXPECT_TRUE(same_bits(restored_state.at(name), tensor.contiguous())) << name;
    EXPECT_TRUE(same_bits(store->read(ticket.id(), name), tensor.contiguous())) << name;
  }
  EXPECT_EQ(store->latest_good()->id, ticket.id());
}

}  // namespace
}  // namespace gradstore
