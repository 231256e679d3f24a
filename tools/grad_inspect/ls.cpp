#include <algorithm>
#include <cmath>
#include <set>

#include "commands.h"
#include "human_text.h"
#include "indexed_snapshot.h"
#include "table.h"

namespace gradstore::inspect {

namespace {

constexpr std::size_t kWidestName = 72;

// One line of the table: a param, or in the long form a slice, or a group without params.
struct Line {
  std::uint32_t rank = 0;
  std::int64_t group = 0;
  const ParamSpec* param = nullptr;
  const SliceSpec* slice = nullptr;  // Long form.
  std::size_t num_slices = 0;
  std::uint64_t elements = 0;
  std::uint64_t numbers = 0;  // What statistics are of: more or fewer than elements.
  std::uint64_t entries = 0;
  bool sparse = false;
  std::uint64_t bytes = 0;
  double sum_of_squares = 0;
  double absmax = std::nan("");
  std::uint64_t nan = 0;
  std::uint64_t inf = 0;
  std::uint64_t zero = 0;
};

void add_slice(Line& line, const SliceSpec& slice, const kernels::SliceFingerprint& fingerprint) {
  const auto& s = fingerprint.statistics;
  ++line.num_slices;
  line.elements += slice.end - slice.begin;
  line.numbers += s.count;
  line.sparse = line.sparse || slice.sparse;
  line.entries += fingerprint.entries;
  line.bytes += num_bytes(slice);
  line.sum_of_squares += s.sum_of_squares;
  line.absmax = std::fmax(line.absmax, s.absmax);
  line.nan += s.nan;
  line.inf += s.positive_infinity + s.negative_infinity;
  line.zero += s.zero;
}

void add_param_lines(std::vector<Line>& lines, const IndexedSnapshot& snapshot, std::size_t param,
                     bool long_form) {
  Line line;
  line.rank = snapshot.rank->rank;
  line.group = snapshot.group_of(param).id;
  line.param = &snapshot.layout.params[param];
  const auto end = snapshot.first_slice[param + 1];
  if (!long_form || snapshot.num_slices(param) == 0) {
    for (auto s = snapshot.first_slice[param]; s < end; ++s) {
      add_slice(line, snapshot.layout.slices[s], snapshot.fingerprints[s]);
    }
    lines.push_back(line);
    return;
  }
  for (auto s = snapshot.first_slice[param]; s < end; ++s) {
    auto slice_line = line;
    slice_line.slice = &snapshot.layout.slices[s];
    add_slice(slice_line, *slice_line.slice, snapshot.fingerprints[s]);
    lines.push_back(slice_line);
  }
}

// All lines of a snapshot, in the layout's order.
void add_lines(std::vector<Line>& lines, const IndexedSnapshot& snapshot, const Selector& selector,
               bool long_form) {
  const auto& layout = snapshot.layout;
  const auto params = select_params(snapshot, selector);
  auto p = params.begin();  // Params are sorted by group.
  std::size_t next = 0;
  for (std::uint32_t g = 0; g < layout.groups.size(); ++g) {
    bool empty = true;
    for (; next < layout.params.size() && layout.params[next].group == g; ++next) empty = false;
    for (; p != params.end() && layout.params[*p].group == g; ++p) {
      add_param_lines(lines, snapshot, *p, long_form);
    }
    // A group that has no param at all would not be seen otherwise.
    const auto id = layout.groups[g].id;
    if (!empty || selector.param || (selector.group && !selector.group->contains(id))) continue;
    Line line;
    line.rank = snapshot.rank->rank;
    line.group = id;
    lines.push_back(line);
  }
}

double sort_value(const Line& line, SortKey key) {
  if (line.num_slices == 0) return -2;  // Nothing there comes last, even behind NaN.
  switch (key) {
    case SortKey::layout:
    case SortKey::name: return 0;
    case SortKey::elements: return static_cast<double>(line.elements);
    case SortKey::bytes: return static_cast<double>(line.bytes);
    case SortKey::norm: return line.sum_of_squares;
    case SortKey::absmax: return std::isnan(line.absmax) ? -1 : line.absmax;
    case SortKey::nan: return static_cast<double>(line.nan);
    case SortKey::inf: return static_cast<double>(line.inf);
    case SortKey::zero: return static_cast<double>(line.zero);
  }
  return 0;
}

void sort_lines(std::vector<Line>& lines, SortKey key) {
  if (key == SortKey::layout) return;
  if (key == SortKey::name) {
    std::ranges::stable_sort(lines, {}, [](const Line& line) {
      return line.param != nullptr ? std::string_view(line.param->name) : std::string_view();
    });
    return;
  }
  std::ranges::stable_sort(lines, std::ranges::greater{},
                           [key](const Line& line) { return sort_value(line, key); });
}

// Why a line has no numbers; plain absence must not look like zeros.
Cell missing_note(const Line& line) {
  if (line.param == nullptr) return {"no params", Look::dim};
  switch (line.param->presence) {
    case Presence::absent: return {"absent: no gradient", Look::dim};
    case Presence::not_captured: return {"not captured", Look::dim};
    case Presence::captured: break;
  }
  return {};
}

Cell short_note(const Line& line) {
  if (line.num_slices == 0) return missing_note(line);
  std::string note;
  const auto add = [&note](const std::string& part) { note += (note.empty() ? "" : ", ") + part; };
  if (line.sparse) {
    add("sparse, " + with_thousands(line.entries) + (line.entries == 1 ? " entry" : " entries"));
  }
  if (line.nan > 0) add(with_thousands(line.nan) + " nan");
  if (line.inf > 0) add(with_thousands(line.inf) + " inf");
  if (line.numbers > 0 && line.zero == line.numbers) add("all zero");
  return {note, line.nan + line.inf > 0 ? Look::bad : Look::plain};
}

std::vector<Cell> short_cells(const Line& line) {
  if (line.num_slices == 0) return {{}, {}, {}, short_note(line)};
  return {{std::to_string(line.num_slices)},
          {with_thousands(line.elements)},
          {human_bytes(line.bytes)},
          short_note(line)};
}

std::vector<Cell> long_cells(const Line& line) {
  if (line.param == nullptr) return {{}, {}, {}, missing_note(line)};
  if (line.slice == nullptr) {
    return {{},
            {std::string(name_of(line.param->dtype)), Look::dim},
            {shape_text(line.param->shape), Look::dim},
            missing_note(line)};
  }
  const auto count = [](std::uint64_t number, Look look) {
    return Cell{with_thousands(number), number > 0 ? look : Look::dim};
  };
  const bool any_finite = !std::isnan(line.absmax);
  return {{std::to_string(line.slice->position)},
          {std::string(name_of(line.slice->dtype))},
          {shape_text(line.slice->shape)},
          {range_text(*line.slice)},
          {human_bytes(line.bytes)},
          {short_number(std::sqrt(line.sum_of_squares))},
          any_finite ? Cell{short_number(line.absmax)} : Cell{"-", Look::dim},
          count(line.nan, Look::bad),
          count(line.inf, Look::bad),
          count(line.zero, Look::plain)};
}

Table make_table(bool long_form) {
  constexpr auto right = Table::Align::right;
  if (!long_form) {
    return Table({{"RANK", right},
                  {"GROUP", right},
                  {"PARAM"},
                  {"SLICES", right},
                  {"ELEMENTS", right},
                  {"BYTES", right},
                  {"NOTE"}});
  }
  return Table({{"RANK", right},
                {"GROUP", right},
                {"PARAM"},
                {"SLICE", right},
                {"DTYPE"},
                {"SHAPE"},
                {"ELEMENTS"},
                {"BYTES", right},
                {"NORM", right},
                {"ABSMAX", right},
                {"NAN", right},
                {"INF", right},
                {"ZERO", right}});
}

void print_lines(const std::vector<Line>& lines, bool several_ranks, const LsOptions& options,
                 const Output& output) {
  auto table = make_table(options.long_form);
  const Line* previous = nullptr;
  for (const auto& line : lines) {
    // As a tree: what a line shares with the one above is not said again, unless they are sorted.
    const bool tree = options.sort == SortKey::layout && previous != nullptr;
    const bool same_rank = tree && previous->rank == line.rank;
    const bool same_group = same_rank && previous->group == line.group;
    const bool same_param = same_group && previous->param == line.param;
    std::vector<Cell> row(3);
    if (several_ranks && !same_rank) row[0] = {std::to_string(line.rank)};
    if (!same_group) row[1] = {std::to_string(line.group)};
    if (line.param != nullptr && !same_param) {
      const bool absent = line.param->presence != Presence::captured;
      row[2] = {shortened(visible_name(line.param->name), kWidestName),
                absent ? Look::dim : Look::plain};
      if (line.param->name.empty()) row[2] = {"(empty name)", Look::dim};
    }
    for (auto& cell : options.long_form ? long_cells(line) : short_cells(line)) {
      row.push_back(std::move(cell));
    }
    table.add(std::move(row));
    previous = &line;
  }
  table.print(output.out, output.style);
}

// Groups and params that several ranks have count once.
std::string total_of(const std::vector<Line>& lines) {
  std::set<std::int64_t> groups;
  std::set<std::string_view> params;
  std::set<std::string_view> captured;
  Line sum;
  for (const auto& line : lines) {
    groups.insert(line.group);
    if (line.param != nullptr) params.insert(line.param->name);
    if (line.num_slices > 0) captured.insert(line.param->name);
    sum.num_slices += line.num_slices;
    sum.elements += line.elements;
    sum.bytes += line.bytes;
    sum.sum_of_squares += line.sum_of_squares;
  }
  auto text = plural(groups.size(), "group") + ", " + plural(params.size(), "param");
  if (const auto without = params.size() - captured.size(); without > 0) {
    text.append(" (").append(with_thousands(without)).append(" without gradient)");
  }
  return text + ", " + plural(sum.num_slices, "slice") + ", " + plural(sum.elements, "element") +
         ", " + human_bytes(sum.bytes) + ", norm " + short_number(std::sqrt(sum.sum_of_squares));
}

Json rank_json(const IndexedSnapshot& snapshot, const Selector& selector) {
  auto json = snapshot_json(snapshot.row);
  json["by_group"] = Json::array();
  const auto params = select_params(snapshot, selector);
  auto p = params.begin();  // Params are sorted by group.
  for (std::uint32_t g = 0; g < snapshot.layout.groups.size(); ++g) {
    const auto& spec = snapshot.layout.groups[g];
    if (selector.group && !selector.group->contains(spec.id)) continue;
    Json group{{"group", spec.id}, {"in_store", spec.in_store}, {"params", Json::array()}};
    for (; p != params.end() && snapshot.layout.params[*p].group == g; ++p) {
      auto param = param_json(snapshot.layout.params[*p]);
      param["slices"] = Json::array();
      for (auto s = snapshot.first_slice[*p]; s < snapshot.first_slice[*p + 1]; ++s) {
        param["slices"].push_back(slice_json(snapshot, s));
      }
      group["params"].push_back(std::move(param));
    }
    json["by_group"].push_back(std::move(group));
  }
  return json;
}

}  // namespace

ExitStatus ls(const LsOptions& options, const Output& output) {
  const auto address = parse_address(options.address);
  auto store = open_store(address);
  const bool unreadable = report_unreadable_ranks(store, output.err);
  const auto newest = select_newest(store, address);

  std::vector<IndexedSnapshot> snapshots;
  bool damaged = unreadable;
  for (const auto& selected : newest.ranks) {
    snapshots.push_back(read_index(selected));
    damaged = damaged || selected.row.info.state == SnapshotState::damaged;
  }
  std::vector<Line> lines;
  for (const auto& snapshot : snapshots) {
    add_lines(lines, snapshot, address.selector, options.long_form);
  }
  if (lines.empty() && (address.selector.param || address.selector.group)) {
    throw Error(ErrorCode::not_found, "Snapshot " + to_string(newest.ranks.front().row.info.id) +
                                          " has nothing that matches " + address.selector.text +
                                          "; `grad-inspect ls` lists its params");
  }

  if (output.json) {
    auto json = document("ls");
    json["store"] = store.json();
    json["ranks"] = Json::array();
    for (const auto& snapshot : snapshots) {
      json["ranks"].push_back(rank_json(snapshot, address.selector));
    }
    print(output.out, json);
  } else {
    print_heading(output.out, output.style, newest, address);
    output.out << '\n';
    sort_lines(lines, options.sort);
    if (!lines.empty()) {
      print_lines(lines, snapshots.size() > 1, options, output);
      output.out << '\n';
    }
    output.out << output.style.apply(Look::dim, total_of(lines)) << '\n';
  }
  return damaged ? ExitStatus::damaged : ExitStatus::fine;
}

}  // namespace gradstore::inspect
