#include <chrono>
#include <map>

#include "commands.h"
#include "human_text.h"
#include "store_check.h"

namespace gradstore::inspect {

namespace {

Json findings_json(const std::vector<Finding>& findings) {
  auto all = Json::array();
  for (const auto& finding : findings) {
    Json json;
    json["rank"] = finding.rank;
    json["snapshot"] = finding.snapshot ? Json(to_string(*finding.snapshot)) : Json(nullptr);
    json["file"] = finding.file.empty() ? Json(nullptr) : Json(text(finding.file));
    json["region"] = finding.region;
    json["param"] = nullptr;
    if (finding.slice) {
      json["param"] = Json::object();
      put_name(json["param"], finding.param);
    }
    json["slice"] = finding.slice ? Json(*finding.slice) : Json(nullptr);
    json["offset"] = finding.offset ? Json(*finding.offset) : Json(nullptr);
    json["what"] = text(finding.what);
    all.push_back(std::move(json));
  }
  return all;
}

void print_json(const OpenStore& store, const CheckResult& result, double seconds,
                const Output& output) {
  auto json = document("verify");
  json["store"] = store.json();
  json["whole"] = result.damage.empty();
  json["snapshots"] = result.snapshots;
  json["files"] = result.files;
  json["slices"] = result.slices;
  json["bytes"] = result.bytes;
  json["seconds"] = seconds;
  json["damage"] = findings_json(result.damage);
  json["leftovers"] = findings_json(result.leftovers);
  json["being_written"] = result.being_written;
  json["gone_since"] = Json::array();
  for (const auto id : result.gone) json["gone_since"].push_back(to_string(id));
  print(output.out, json);
}

// Below a line for each file, what was found in it.
void print_findings(const std::vector<Finding>& findings, const char* title, Look look,
                    const Output& output) {
  std::map<std::string, std::vector<const Finding*>> by_file;
  for (const auto& finding : findings) {
    auto place =
        finding.file.empty() ? "index of rank " + std::to_string(finding.rank) : finding.file;
    if (finding.file.empty() && finding.snapshot)
      place += ", snapshot " + to_string(*finding.snapshot);
    by_file[place].push_back(&finding);
  }
  for (const auto& [file, found] : by_file) {
    output.out << output.style.apply(look, title) << "  " << visible_text(file) << '\n';
    for (const auto* finding : found) {
      output.out << "  ";
      if (finding->region != "file") {
        output.out << finding->region;
        if (finding->offset) output.out << " at byte " << *finding->offset;
        output.out << ": ";
      }
      output.out << visible_text(finding->what) << '\n';
    }
  }
}

std::string summary(const CheckResult& result, double seconds) {
  char duration[32];
  std::snprintf(duration, sizeof duration, "%.2f s", seconds);
  auto line = "checked " + plural(result.snapshots, "snapshot") + ": " +
              plural(result.files, "file") + ", " + plural(result.slices, "slice") + ", " +
              human_bytes(result.bytes) + " in " + duration;
  if (seconds > 0.1) {
    line += " (" +
            human_bytes(static_cast<std::uint64_t>(static_cast<double>(result.bytes) / seconds)) +
            "/s)";
  }
  return line;
}

void print_text(const CheckResult& result, double seconds, const Output& output) {
  print_findings(result.damage, "DAMAGED", Look::bad, output);
  print_findings(result.leftovers, "LEFT OVER", Look::warning, output);
  if (output.quiet) return;
  for (const auto id : result.gone) {
    output.out << output.style.apply(Look::dim, "gone since") << "  " << to_string(id)
               << ": its writer removed it while we looked\n";
  }
  if (result.damage.size() + result.leftovers.size() + result.gone.size() > 0) output.out << '\n';
  output.out << summary(result, seconds) << '\n';
  if (result.being_written > 0) {
    output.out << plural(result.being_written, "file") << " being written, not checked\n";
  }
  if (!result.damage.empty()) {
    output.out << output.style.apply(
        Look::bad, plural(result.damage.size(), "place") + " damaged or not readable");
  } else if (result.files == 0) {
    output.out << "there was nothing to check";
  } else {
    output.out << output.style.apply(Look::good, "every byte is as it was written");
  }
  if (!result.leftovers.empty()) {
    output.out << "; " << plural(result.leftovers.size(), "file") << " left over";
  }
  output.out << '\n';
}

}  // namespace

ExitStatus verify(const VerifyOptions& options, const Output& output) {
  const auto start = std::chrono::steady_clock::now();
  const auto address = parse_address(options.address);
  refuse_part_keys(address, "verify");
  auto store = open_store(address);
  const auto selected = select(store, address.selector);
  if (selected.empty() && address.selector.names_snapshots())
    refuse_empty_selection(store, address);

  Progress progress(!output.quiet && !output.json);
  StoreCheck check(store, [&](const CheckResult& so_far) {
    progress.show("verifying: " + plural(so_far.files, "file") + ", " + human_bytes(so_far.bytes) +
                  " of " + plural(selected.size(), "snapshot"));
  });
  for (const auto& rank : store.ranks) check.check_index(rank);
  for (const auto& s : selected) check.check_snapshot(s);
  if (!address.selector.names_snapshots()) {
    for (auto& rank : store.ranks) check.check_leftovers(rank);
  }
  progress.wipe();

  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const auto& result = check.result();
  if (output.json) {
    print_json(store, result, seconds.count(), output);
  } else {
    print_text(result, seconds.count(), output);
  }
  if (!result.damage.empty()) return ExitStatus::damaged;
  if (!result.leftovers.empty()) return ExitStatus::findings;
  return result.files == 0 && result.gone.empty() ? ExitStatus::nothing : ExitStatus::fine;
}

}  // namespace gradstore::inspect
