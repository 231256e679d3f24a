#include <cmath>
#include <memory>

#include "commands.h"
#include "human_text.h"
#include "indexed_snapshot.h"
#include "slice_values.h"
#include "table.h"

namespace gradstore::inspect {

namespace {

// One snapshot of one rank; its file is opened when something in it is asked for.
struct Subject {
  IndexedSnapshot indexed;
  std::unique_ptr<archive::FileReader> file;
  std::vector<std::size_t> params;
};

// A slice to show, or a param that has none.
struct Item {
  const Subject* subject = nullptr;
  std::size_t param = 0;
  std::optional<std::size_t> slice;
};

// A file that is missing is damage, unless its writer has removed the snapshot since.
std::unique_ptr<archive::FileReader> open_file(const IndexedSnapshot& snapshot) {
  const auto id = snapshot.row.info.id;
  try {
    return std::make_unique<archive::FileReader>(snapshot.rank->view->open_gradients(id));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    auto& index = snapshot.rank->view->index();
    index.catch_up();
    const auto row = index.find(id);
    if (row && row->info.state == SnapshotState::committed) {
      throw Error(ErrorCode::corrupt,
                  snapshot.rank->paths.gradients_file(id).string() + ": the file is missing");
    }
    throw Error(ErrorCode::not_found, "The files of snapshot " + to_string(id) +
                                          " were removed; only its statistics are left");
  }
}

std::vector<Item> items_of(const std::vector<Subject>& subjects, const ShowOptions& options) {
  std::vector<Item> items;
  for (const auto& subject : subjects) {
    for (const auto p : subject.params) {
      const auto first = subject.indexed.first_slice[p];
      const auto count = subject.indexed.num_slices(p);
      if (options.slice) {
        if (*options.slice < count) items.push_back({&subject, p, first + *options.slice});
        continue;
      }
      for (std::size_t s = 0; s < count; ++s) items.push_back({&subject, p, first + s});
      if (count == 0) items.push_back({&subject, p, std::nullopt});
    }
  }
  return items;
}

std::string counts_text(const kernels::Statistics& s) {
  std::string text = with_thousands(s.nan) + " nan, " + with_thousands(s.positive_infinity) +
                     " inf, " + with_thousands(s.negative_infinity) + " -inf, " +
                     with_thousands(s.zero) + " zero";
  if (s.count > 0) {
    char share[32];
    std::snprintf(share, sizeof share, "%.1f",
                  100 * static_cast<double>(s.zero) / static_cast<double>(s.count));
    text += " (" + std::string(share) + " %)";
  }
  return text;
}

void add_statistics(FactList& list, const kernels::SliceFingerprint& fingerprint) {
  const auto& s = fingerprint.statistics;
  const auto not_finite = s.nan + s.positive_infinity + s.negative_infinity;
  const auto finite = static_cast<double>(s.count - not_finite);
  list.add("norm", {short_number(std::sqrt(s.sum_of_squares))});
  if (finite > 0) {
    list.add("mean, rms", {short_number(s.sum / finite) + ", " +
                           short_number(std::sqrt(s.sum_of_squares / finite))});
    list.add("min, max", {short_number(s.min) + ", " + short_number(s.max)});
    list.add("absmax", {short_number(s.absmax)});
  }
  list.add("sum", {short_number(s.sum)});
  list.add("sum of squares", {short_number(s.sum_of_squares)});
  list.add("elements", {counts_text(s), not_finite > 0 ? Look::bad : Look::plain});
  if (not_finite > 0) list.add("", {"the figures above are over the finite ones", Look::dim});
  list.add("XXH3-128", {to_string(fingerprint.digest)});
}

void print_param_title(const Item& item, bool several_ranks, const Output& output) {
  const auto& indexed = item.subject->indexed;
  const auto& param = indexed.layout.params[item.param];
  const auto name = param.name.empty() ? "(empty name)" : visible_name(param.name);
  output.out << '\n'
             << output.style.apply(Look::heading, name) << "  " << name_of(param.dtype) << ' '
             << shape_text(param.shape) << ", group " << indexed.group_of(item.param).id;
  if (several_ranks) output.out << ", rank " << indexed.rank->rank;
  output.out << '\n';
  if (param.presence == Presence::absent) output.out << "  absent: it had no gradient\n";
  if (param.presence == Presence::not_captured) output.out << "  not captured in this snapshot\n";
}

void print_slice(const Item& item, const std::optional<ElementRange>& values,
                 const Output& output) {
  const auto& indexed = item.subject->indexed;
  const auto& slice = indexed.layout.slices[*item.slice];
  output.out << "  slice " << slice.position << " of " << indexed.num_slices(item.param) << '\n';
  FactList list;
  list.add("stored as", {std::string(name_of(slice.dtype)) + " " + shape_text(slice.shape) + ", " +
                         human_bytes(num_bytes(slice))});
  if (slice.sparse) {
    const auto entries = indexed.fingerprints[*item.slice].entries;
    list.add("",
             {"sparse COO: " + with_thousands(entries) + (entries == 1 ? " entry" : " entries") +
              " over the first " + plural(slice.sparse->sparse_dims, "dimension") +
              ", statistics and values are of these"});
  }
  if (slice.alias_of) {
    const auto& shared = indexed.layout.slices[*slice.alias_of];
    list.add("same memory as", {visible_name(indexed.layout.params[shared.param].name) +
                                ", slice " + std::to_string(shared.position)});
  }
  auto range = range_text(slice);
  if (slice.end - slice.begin == num_elements(indexed.layout.params[item.param].shape)) {
    range += ", the whole param";
  }
  list.add("range", {range});
  add_statistics(list, indexed.fingerprints[*item.slice]);
  if (item.subject->file) {
    const auto& extent = item.subject->file->placement().slice_extents[*item.slice];
    list.add("file", {visible_text(item.subject->file->path().string())});
    if (extent.length > 0) list.add("", {"from byte " + with_thousands(extent.offset)});
  }
  if (!values) {
    list.print(output.out, output.style, 4);
    return;
  }
  const auto read = read_values(*item.subject->file, *item.slice, *values);
  list.add("values",
           {read.begin < read.end ? std::to_string(read.begin) + ".." + std::to_string(read.end) +
                                        " of the slice, digest checked"
                                  : "none in this range"});
  list.print(output.out, output.style, 4);
  print_values(output.out, output.style, slice, read, 6);
}

std::string manifest_text(const archive::FileReader& file) {
  const auto& extent = file.seal().manifest.extent;
  std::string text(extent.length, ' ');
  file.read(extent.offset, std::as_writable_bytes(std::span(text)));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

void print_facts(const IndexedSnapshot& snapshot, const Output& output) {
  const auto& row = snapshot.row;
  const auto path_text = [](const io::Path& path) { return visible_text(path.string()); };
  FactList list;
  list.add("rank",
           {std::to_string(row.info.rank) + ", world size " + std::to_string(row.info.world_size)});
  list.add("file", {path_text(snapshot.rank->paths.gradients_file(row.info.id))});
  list.add("", {human_bytes(row.info.file_bytes) + ", of which gradients " +
                human_bytes(row.info.gradient_bytes)});
  if (row.info.state_id) {
    list.add("companion state", {path_text(snapshot.rank->paths.state_file(*row.info.state_id))});
    list.add("", {human_bytes(row.info.state_file_bytes)});
  }
  list.add("contents",
           {plural(row.info.num_groups, "group") + ", " + plural(row.info.num_params, "param") +
            ", " + plural(row.info.num_slices, "slice")});
  list.add("loss scale", {short_number(row.info.metadata.loss_scale)});
  list.add("root digest", {to_string(row.root_digest)});
  if (row.info.pinned) list.add("pinned", {"yes: retention keeps it"});
  list.print(output.out, output.style, 2);
}

void print_items(const std::vector<Item>& items, std::size_t shown, bool several_ranks,
                 const std::optional<ElementRange>& values, const Output& output) {
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& item = items[i];
    const bool continued =
        i > 0 && items[i - 1].subject == item.subject && items[i - 1].param == item.param;
    if (!continued) print_param_title(item, several_ranks, output);
    if (item.slice) print_slice(item, values, output);
  }
  if (shown < items.size()) {
    output.out << '\n'
               << output.style.apply(Look::dim, plural(items.size() - shown, "more slice") +
                                                    "; --limit 0 shows all")
               << '\n';
  }
}

Json item_json(const Item& item, const std::optional<ElementRange>& values) {
  const auto& indexed = item.subject->indexed;
  Json json;
  json["rank"] = indexed.rank->rank;
  json["group"] = indexed.group_of(item.param).id;
  json["param"] = param_json(indexed.layout.params[item.param]);
  if (!item.slice) return json;
  json.update(slice_json(indexed, *item.slice));
  if (item.subject->file) {
    const auto& extent = item.subject->file->placement().slice_extents[*item.slice];
    json["offset"] = extent.length > 0 ? Json(extent.offset) : Json(nullptr);
  }
  if (values) {
    const auto read = read_values(*item.subject->file, *item.slice, *values);
    json["values"] = values_json(indexed.layout.slices[*item.slice], read);
  }
  return json;
}

void print_json(const OpenStore& store, const std::vector<Subject>& subjects,
                const std::vector<Item>& items, std::size_t shown, const ShowOptions& options,
                const std::optional<ElementRange>& values, const Output& output) {
  auto json = document("show");
  json["store"] = store.json();
  json["snapshots"] = Json::array();
  for (const auto& subject : subjects) {
    auto snapshot = snapshot_json(subject.indexed.row);
    if (options.manifest) snapshot["manifest"] = Json::parse(manifest_text(*subject.file));
    json["snapshots"].push_back(std::move(snapshot));
  }
  json["slices"] = Json::array();
  for (std::size_t i = 0; i < shown; ++i) json["slices"].push_back(item_json(items[i], values));
  json["slices_left_out"] = items.size() - shown;
  print(output.out, json);
}

[[noreturn]] void refuse_empty_show(const Address& address, const ShowOptions& options,
                                    SnapshotId id) {
  throw Error(ErrorCode::not_found,
              "Snapshot " + to_string(id) + " has nothing that matches " + address.selector.text +
                  (options.slice ? " --slice " + std::to_string(*options.slice) : std::string()) +
                  "; `grad-inspect ls` lists its params");
}

}  // namespace

ExitStatus show(const ShowOptions& options, const Output& output) {
  const auto address = parse_address(options.address);
  const bool of_params = address.selector.param || address.selector.group;
  if (!of_params && (options.values || options.slice)) {
    throw Error(ErrorCode::invalid_argument,
                "Which param? Add @param=NAME to the store; `grad-inspect ls` lists the names");
  }
  std::optional<ElementRange> values;
  if (options.values) values = parse_element_range(*options.values);

  auto store = open_store(address);
  bool damaged = report_unreadable_ranks(store, output.err);
  const auto newest = select_newest(store, address);
  std::vector<Subject> subjects;
  for (const auto& selected : newest.ranks) {
    damaged = damaged || selected.row.info.state == SnapshotState::damaged;
    Subject subject{read_index(selected), nullptr, {}};
    if (of_params) subject.params = select_params(subject.indexed, address.selector);
    if (options.manifest || values) subject.file = open_file(subject.indexed);
    subjects.push_back(std::move(subject));
  }
  const auto items = items_of(subjects, options);
  if (items.empty() && of_params)
    refuse_empty_show(address, options, newest.ranks.front().row.info.id);
  const auto shown =
      options.limit == 0 ? items.size() : std::min<std::size_t>(options.limit, items.size());

  if (output.json) {
    print_json(store, subjects, items, shown, options, values, output);
  } else {
    print_heading(output.out, output.style, newest, address);
    for (const auto& subject : subjects) {
      if (!of_params) print_facts(subject.indexed, output);
      if (options.manifest) {
        output.out << '\n' << visible_lines(manifest_text(*subject.file)) << '\n';
      }
    }
    print_items(items, shown, subjects.size() > 1, values, output);
    if (!of_params) {
      const auto* hint = "for a param, add its name to the address: STORE@param=NAME";
      output.out << '\n' << output.style.apply(Look::dim, hint) << '\n';
    }
  }
  return damaged ? ExitStatus::damaged : ExitStatus::fine;
}

}  // namespace gradstore::inspect
