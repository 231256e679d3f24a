#include "index/layout_record.h"

#include <schemas/layout_generated.h>

#include "index/record.h"

namespace gradstore::index {

namespace {

constexpr RecordKind kKind{"Layout record", "GSLY", 1};

// One entry for each item. Written in place: layouts have up to millions of slices.
template <class T, class Items, class ValueOf>
flatbuffers::Offset<flatbuffers::Vector<T>> add_column(flatbuffers::FlatBufferBuilder& builder,
                                                       const Items& items, ValueOf value_of) {
  T* entry = nullptr;
  const auto column = builder.CreateUninitializedVector(items.size(), &entry);
  for (const auto& item : items) *entry++ = value_of(item);
  return column;
}

template <class Items, class SizeOf>
auto add_ends(flatbuffers::FlatBufferBuilder& builder, const Items& items, SizeOf size_of_item) {
  std::uint64_t end = 0;
  return add_column<std::uint64_t>(builder, items,
                                   [&](const auto& item) { return end += size_of_item(item); });
}

// All items' parts, one item's behind the other's.
template <class T, class Items, class PartsOf>
flatbuffers::Offset<flatbuffers::Vector<T>> add_parts(flatbuffers::FlatBufferBuilder& builder,
                                                      const Items& items, std::size_t total,
                                                      PartsOf parts_of) {
  T* entry = nullptr;
  const auto column = builder.CreateUninitializedVector(total, &entry);
  for (const auto& item : items) {
    for (const auto& part : parts_of(item)) *entry++ = static_cast<T>(part);
  }
  return column;
}

template <class Items, class SizeOf>
std::size_t total_of(const Items& items, SizeOf size_of_item) {
  std::size_t total = 0;
  for (const auto& item : items) total += size_of_item(item);
  return total;
}

std::vector<std::uint32_t> slice_counts(const Layout& layout) {
  std::vector<std::uint32_t> counts(layout.params.size());
  for (const auto& slice : layout.slices) ++counts[slice.param];
  return counts;
}

// Cuts a column into the pieces that a column of exclusive ends describes.
template <class T>
class Pieces {
 public:
  Pieces(const VerifiedRecord& record, std::span<const std::uint64_t> ends, std::span<const T> all)
      : record_(record), ends_(ends), all_(all) {
    if ((ends.empty() ? 0 : ends.back()) != all.size()) record.refuse("a column has no owner");
  }

  std::span<const T> operator[](std::size_t i) const {
    const auto begin = i == 0 ? 0 : ends_[i - 1];
    const auto end = ends_[i];
    if (begin > end || end > all_.size()) record_.refuse("the ends of a column are out of order");
    return all_.subspan(begin, end - begin);
  }

 private:
  const VerifiedRecord& record_;
  std::span<const std::uint64_t> ends_;
  std::span<const T> all_;
};

DType decode_dtype(const VerifiedRecord& record, std::uint8_t code) {
  const auto dtype = dtype_from_code(code);
  if (!dtype) record.refuse("unknown dtype " + std::to_string(code));
  return *dtype;
}

Presence decode_presence(const VerifiedRecord& record, std::uint8_t code) {
  const auto presence = static_cast<Presence>(code);
  switch (presence) {
    case Presence::captured:
    case Presence::absent:
    case Presence::not_captured: return presence;
  }
  record.refuse("unknown presence " + std::to_string(code));
}

std::vector<ParamSpec> decode_params(const VerifiedRecord& record, const fb::Layout& root) {
  const auto groups = record.column(root.param_group());
  const auto dtypes = record.column(root.param_dtype());
  const auto presences = record.column(root.param_presence());
  const auto name_ends = record.column(root.param_name_end());
  const auto shape_ends = record.column(root.param_shape_end());
  record.require_size(groups.size(), dtypes, presences, name_ends, shape_ends);
  const Pieces names(record, name_ends, record.column(root.param_names()));
  const Pieces shapes(record, shape_ends, record.column(root.param_shapes()));

  std::vector<ParamSpec> params(groups.size());
  for (std::size_t p = 0; p < params.size(); ++p) {
    const auto name = names[p];
    const auto shape = shapes[p];
    params[p].name.assign(name.begin(), name.end());
    params[p].group = groups[p];
    params[p].dtype = decode_dtype(record, dtypes[p]);
    params[p].presence = decode_presence(record, presences[p]);
    params[p].shape.assign(shape.begin(), shape.end());
  }
  return params;
}

std::vector<SliceSpec> decode_slices(const VerifiedRecord& record, const fb::Layout& root,
                                     std::size_t num_params) {
  const auto counts = record.column(root.param_slice_count());
  const auto dtypes = record.column(root.slice_dtype());
  const auto begins = record.column(root.slice_begin());
  const auto ends = record.column(root.slice_end());
  const auto paddings = record.column(root.slice_padding());
  const auto shape_ends = record.column(root.slice_shape_end());
  record.require_size(num_params, counts);
  record.require_size(dtypes.size(), begins, ends, paddings, shape_ends);
  const Pieces shapes(record, shape_ends, record.column(root.slice_shapes()));
  if (total_of(counts, [](std::uint64_t count) { return count; }) != dtypes.size()) {
    record.refuse("its params have more or fewer slices than there are");
  }

  std::vector<SliceSpec> slices(dtypes.size());
  std::size_t s = 0;
  for (std::uint32_t p = 0; p < counts.size(); ++p) {
    for (std::uint32_t position = 0; position < counts[p]; ++position, ++s) {
      const auto shape = shapes[s];
      slices[s].param = p;
      slices[s].position = position;
      slices[s].dtype = decode_dtype(record, dtypes[s]);
      slices[s].shape.assign(shape.begin(), shape.end());
      slices[s].begin = begins[s];
      slices[s].end = ends[s];
      slices[s].padding = paddings[s];
    }
  }
  return slices;
}

// What few slices have is kept by their numbers.
void decode_sparse(const VerifiedRecord& record, const fb::Layout& root,
                   std::vector<SliceSpec>& slices) {
  const auto numbers = record.column(root.sparse_slice());
  const auto dims = record.column(root.sparse_dims());
  const auto capacities = record.column(root.sparse_capacity());
  record.require_size(numbers.size(), dims, capacities);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= slices.size() || (i > 0 && numbers[i] <= numbers[i - 1])) {
      record.refuse("its sparse slices are out of order");
    }
    slices[numbers[i]].sparse = {dims[i], capacities[i]};
  }
}

void decode_aliases(const VerifiedRecord& record, const fb::Layout& root,
                    std::vector<SliceSpec>& slices) {
  const auto numbers = record.column(root.alias_slice());
  const auto others = record.column(root.alias_of());
  record.require_size(numbers.size(), others);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= slices.size() || (i > 0 && numbers[i] <= numbers[i - 1])) {
      record.refuse("its aliases are out of order");
    }
    slices[numbers[i]].alias_of = others[i];
  }
}

}  // namespace

std::string encode(const Layout& layout) {
  validate(layout);
  const auto& params = layout.params;
  const auto& slices = layout.slices;
  const auto name_size = [](const ParamSpec& param) { return param.name.size(); };
  const auto rank = [](const auto& item) { return item.shape.size(); };
  const auto shape = [](const auto& item) -> const auto& { return item.shape; };
  const auto dtype = [](const auto& item) { return static_cast<std::uint8_t>(item.dtype); };
  const std::size_t name_bytes = total_of(params, name_size);
  const std::size_t param_extents = total_of(params, rank);
  const std::size_t slice_extents = total_of(slices, rank);
  std::vector<std::uint64_t> sparse_slices, sparse_capacities, alias_slices, aliases_of;
  std::vector<std::uint32_t> sparse_dims_of;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].sparse) {
      sparse_slices.push_back(i);
      sparse_dims_of.push_back(slices[i].sparse->sparse_dims);
      sparse_capacities.push_back(slices[i].sparse->capacity);
    }
    if (slices[i].alias_of) {
      alias_slices.push_back(i);
      aliases_of.push_back(*slices[i].alias_of);
    }
  }
  const std::size_t bytes = 640 + name_bytes + 8 * (param_extents + slice_extents) +
                            9 * layout.groups.size() + 26 * params.size() + 33 * slices.size() +
                            20 * sparse_slices.size() + 16 * alias_slices.size();
  require_encodable(kKind, bytes);

  flatbuffers::FlatBufferBuilder builder(bytes);
  builder.ForceDefaults(true);
  const auto group_id = add_column<std::int64_t>(builder, layout.groups,
                                                 [](const GroupSpec& group) { return group.id; });
  const auto group_in_store = add_column<std::uint8_t>(
      builder, layout.groups, [](const GroupSpec& group) { return std::uint8_t{group.in_store}; });
  const auto param_name_end = add_ends(builder, params, name_size);
  const auto param_names = add_parts<std::uint8_t>(
      builder, params, name_bytes,
      [](const ParamSpec& param) -> const auto& { return param.name; });
  const auto param_group = add_column<std::uint32_t>(
      builder, params, [](const ParamSpec& param) { return param.group; });
  const auto param_dtype = add_column<std::uint8_t>(builder, params, dtype);
  const auto param_presence = add_column<std::uint8_t>(builder, params, [](const ParamSpec& param) {
    return static_cast<std::uint8_t>(param.presence);
  });
  const auto param_shape_end = add_ends(builder, params, rank);
  const auto param_shapes = add_parts<std::uint64_t>(builder, params, param_extents, shape);
  const auto param_slice_count = builder.CreateVector(slice_counts(layout));
  const auto slice_dtype = add_column<std::uint8_t>(builder, slices, dtype);
  const auto slice_shape_end = add_ends(builder, slices, rank);
  const auto slice_shapes = add_parts<std::uint64_t>(builder, slices, slice_extents, shape);
  const auto slice_begin = add_column<std::uint64_t>(
      builder, slices, [](const SliceSpec& slice) { return slice.begin; });
  const auto slice_end =
      add_column<std::uint64_t>(builder, slices, [](const SliceSpec& slice) { return slice.end; });
  const auto slice_padding = add_column<std::uint64_t>(
      builder, slices, [](const SliceSpec& slice) { return slice.padding; });
  const auto sparse_slice = builder.CreateVector(sparse_slices);
  const auto sparse_dims = builder.CreateVector(sparse_dims_of);
  const auto sparse_capacity = builder.CreateVector(sparse_capacities);
  const auto alias_slice = builder.CreateVector(alias_slices);
  const auto alias_of = builder.CreateVector(aliases_of);
  fb::FinishLayoutBuffer(
      builder, fb::CreateLayout(builder, kKind.version, static_cast<std::uint8_t>(layout.kind),
                                group_id, group_in_store, param_name_end, param_names, param_group,
                                param_dtype, param_presence, param_shape_end, param_shapes,
                                param_slice_count, slice_dtype, slice_shape_end, slice_shapes,
                                slice_begin, slice_end, slice_padding, sparse_slice, sparse_dims,
                                sparse_capacity, alias_slice, alias_of));
  return finished_record(builder);
}

Layout decode_layout(std::span<const std::byte> bytes) {
  const VerifiedRecord record(bytes, kKind);
  const auto& root = record.root<fb::Layout>();

  Layout layout;
  layout.kind = static_cast<LayoutKind>(root.kind());  // Its range is checked by validate().
  const auto group_ids = record.column(root.group_id());
  const auto in_store = record.column(root.group_in_store());
  record.require_size(group_ids.size(), in_store);
  for (std::size_t g = 0; g < group_ids.size(); ++g) {
    if (in_store[g] > 1) record.refuse("a group is neither in the store nor not");
    layout.groups.push_back({group_ids[g], in_store[g] == 1});
  }
  layout.params = decode_params(record, root);
  layout.slices = decode_slices(record, root, layout.params.size());
  decode_sparse(record, root, layout.slices);
  decode_aliases(record, root, layout.slices);
  validate(layout);
  return layout;
}

}  // namespace gradstore::index
