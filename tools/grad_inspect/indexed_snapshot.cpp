#include "indexed_snapshot.h"

#include <algorithm>

namespace gradstore::inspect {

IndexedSnapshot read_index(const Selected& selected) {
  auto& index = selected.rank->view->index();
  IndexedSnapshot snapshot{
      selected.rank, selected.row, index.layout(selected.row.layout_digest), {}, {}};
  snapshot.fingerprints = index.fingerprints(selected.row, snapshot.layout);
  const auto& slices = snapshot.layout.slices;
  for (std::size_t p = 0, s = 0; p <= snapshot.layout.params.size(); ++p) {
    while (s < slices.size() && slices[s].param < p) ++s;
    snapshot.first_slice.push_back(s);
  }
  return snapshot;
}

std::vector<std::size_t> select_params(const IndexedSnapshot& snapshot, const Selector& selector) {
  std::vector<std::size_t> params;
  for (std::size_t p = 0; p < snapshot.layout.params.size(); ++p) {
    if (selector.group && !selector.group->contains(snapshot.group_of(p).id)) continue;
    if (selector.param && !selector.param->matches(snapshot.layout.params[p].name)) continue;
    params.push_back(p);
  }
  return params;
}

std::string presence_name(Presence presence) {
  switch (presence) {
    case Presence::captured: return "captured";
    case Presence::absent: return "absent";
    case Presence::not_captured: return "not_captured";
  }
  return "invalid";
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    text += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  }
  return text + "]";
}

std::string range_text(const SliceSpec& slice) {
  auto text = std::to_string(slice.begin) + ".." + std::to_string(slice.end);
  if (slice.padding > 0) text += " +" + std::to_string(slice.padding) + " padding";
  return text;
}

Json slice_json(const IndexedSnapshot& snapshot, std::size_t number) {
  const auto& slice = snapshot.layout.slices[number];
  Json json;
  json["slice"] = slice.position;
  json["dtype"] = name_of(slice.dtype);
  json["shape"] = slice.shape;
  json["begin"] = slice.begin;
  json["end"] = slice.end;
  json["padding"] = slice.padding;
  json["bytes"] = num_bytes(slice);
  if (slice.sparse) {
    json["sparse"] = {{"sparse_dims", slice.sparse->sparse_dims},
                      {"entries", snapshot.fingerprints[number].entries},
                      {"capacity", slice.sparse->capacity}};
  }
  if (slice.alias_of) {
    const auto& shared = snapshot.layout.slices[*slice.alias_of];
    Json same;
    put_name(same, snapshot.layout.params[shared.param].name);
    same["slice"] = shared.position;
    json["same_memory_as"] = same;
  }
  json.update(fingerprint_json(snapshot.fingerprints[number]));
  return json;
}

Json param_json(const ParamSpec& param) {
  Json json;
  put_name(json, param.name);
  json["presence"] = presence_name(param.presence);
  json["dtype"] = name_of(param.dtype);
  json["shape"] = param.shape;
  return json;
}

}  // namespace gradstore::inspect
