#include "address.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <vector>

#include "gradstore/error.h"
#include "human_text.h"

namespace gradstore::inspect {

namespace {

constexpr std::string_view kKeys = "attempt, step, micro, stage, rank, group, param, snapshot";

// A part of the whole address, and where in it: so that errors can point at it.
struct Part {
  std::string_view whole;
  std::size_t begin = 0;
  std::size_t end = 0;

  std::string_view text() const { return whole.substr(begin, end - begin); }
  Part sub(std::size_t from, std::size_t to) const { return {whole, begin + from, begin + to}; }
  Part from(std::size_t at) const { return {whole, begin + at, end}; }
  Part to(std::size_t at) const { return {whole, begin, begin + at}; }

  [[noreturn]] void refuse(const std::string& why) const {
    const auto before = visible_text(whole.substr(0, begin));
    const auto here = visible_text(text());
    const std::string indent = "  ";
    std::string mark = "^";
    if (const auto width = display_width(here); width > 1) mark.append(width - 1, '~');
    throw Error(ErrorCode::invalid_argument, why + "\n" + indent + visible_text(whole) + "\n" +
                                                 indent + std::string(display_width(before), ' ') +
                                                 mark);
  }
};

std::int64_t parse_number(const Part& part, bool may_be_negative) {
  const auto text = part.text();
  std::int64_t number = 0;
  const auto* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec == std::errc::result_out_of_range) part.refuse("This number is too large");
  if (result.ec != std::errc() || result.ptr != end) {
    part.refuse("Expected a number here, or a range: 7, 100..200, 100..200:10");
  }
  if (number < 0 && !may_be_negative) part.refuse("This number cannot be negative");
  return number;
}

NumberRange parse_range(const Part& part, bool may_be_negative = false) {
  const auto text = part.text();
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) {
    if (const auto colon = text.find(':'); colon != std::string_view::npos) {
      part.from(colon).refuse("A stride needs a range before it: 100..200:10");
    }
    const auto number = parse_number(part, may_be_negative);
    return {number, number, 1};
  }
  const auto colon = std::min(text.find(':', dots), text.size());
  NumberRange range;
  range.first = parse_number(part.to(dots), may_be_negative);
  range.last = parse_number(part.sub(dots + 2, colon), may_be_negative);
  if (range.last < range.first) part.to(colon).refuse("This range is backwards");
  if (colon < text.size()) {
    range.step = parse_number(part.from(colon + 1), false);
    if (range.step == 0) part.from(colon + 1).refuse("The stride of a range is at least 1");
  }
  return range;
}

Stage parse_stage_name(const Part& part) {
  const auto stage = parse_stage(part.text());
  if (!stage) part.refuse("The stages are pre_reduce, post_reduce, unscaled and clipped");
  return *stage;
}

SnapshotId parse_id(const Part& part) {
  // As printed, or with fewer leading zeros.
  const auto text = part.text();
  const auto dash = text.find('-');
  SnapshotId id;
  const auto parse = [&](std::string_view digits, std::uint64_t& number) {
    const auto* end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data(), end, number);
    return result.ec == std::errc() && result.ptr == end;
  };
  if (dash == std::string_view::npos || !parse(text.substr(0, dash), id.attempt) ||
      !parse(text.substr(dash + 1), id.sequence)) {
    part.refuse("A snapshot is named ATTEMPT-SEQUENCE, for example 0002-00000042");
  }
  return id;
}

Glob parse_glob(const Part& part) {
  try {
    return Glob(part.text());
  } catch (const Glob::Fault& fault) {
    part.sub(fault.offset, fault.offset + fault.length).refuse("In this pattern " + fault.why);
  }
}

// Cuts at commas that have no backslash before them.
std::vector<Part> split_terms(const Part& part) {
  std::vector<Part> terms;
  const auto text = part.text();
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at] == '\\') {
      ++at;
    } else if (at == text.size() || text[at] == ',') {
      terms.push_back(part.sub(begin, at));
      begin = at + 1;
    }
  }
  if (begin <= text.size()) terms.push_back(part.from(begin));  // It ends in a lone backslash.
  return terms;
}

template <typename T>
void set_once(std::optional<T>& field, const Part& key, T value) {
  if (field) key.refuse("This key is there twice");
  field = std::move(value);
}

void parse_term(const Part& term, Selector& selector) {
  const auto text = term.text();
  if (text.empty()) term.refuse("Expected KEY=VALUE here; keys: " + std::string(kKeys));
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) {
    term.refuse("Expected KEY=VALUE here; keys: " + std::string(kKeys));
  }
  const auto key = term.to(equals);
  const auto value = term.from(equals + 1);
  const auto name = key.text();
  if (value.text().empty() && name != "param") value.refuse("A value must follow the =");

  if (name == "attempt") {
    set_once(selector.attempt, key, parse_range(value));
  } else if (name == "step" && value.text() == "latest") {
    if (selector.step || selector.latest_step) key.refuse("This key is there twice");
    selector.latest_step = true;
  } else if (name == "step") {
    if (selector.latest_step) key.refuse("This key is there twice");
    set_once(selector.step, key, parse_range(value));
  } else if (name == "micro") {
    set_once(selector.micro, key, parse_range(value));
  } else if (name == "stage") {
    set_once(selector.stage, key, parse_stage_name(value));
  } else if (name == "rank") {
    set_once(selector.rank, key, parse_range(value));
  } else if (name == "group") {
    set_once(selector.group, key, parse_range(value, /*may_be_negative=*/true));
  } else if (name == "param") {
    set_once(selector.param, key, parse_glob(value));
  } else if (name == "snapshot") {
    set_once(selector.snapshot, key, parse_id(value));
  } else {
    key.refuse("There is no such key; keys: " + std::string(kKeys));
  }
}

}  // namespace

Address parse_address(std::string_view text,
                      const std::function<bool(const std::string&)>& exists) {
  if (text.empty()) throw Error(ErrorCode::invalid_argument, "The store's path is empty");
  const auto last = text.rfind('@');
  if (last == std::string_view::npos || exists(std::string(text))) return {std::string(text), {}};
  auto at = last;
  for (auto next = last; next != std::string_view::npos && next > 0;
       next = text.rfind('@', next - 1)) {
    if (exists(std::string(text.substr(0, next)))) {
      at = next;
      break;
    }
  }
  const Part whole{text, 0, text.size()};
  if (at == 0) whole.to(1).refuse("A store's path must come before the @");

  Address address{std::string(text.substr(0, at)), {}};
  address.selector.text = text.substr(at + 1);
  for (const auto& term : split_terms(whole.from(at + 1))) parse_term(term, address.selector);
  return address;
}

Address parse_address(std::string_view text) {
  return parse_address(text, [](const std::string& path) {
    std::error_code ignored;  // What cannot be looked at is told when it is opened.
    return std::filesystem::exists(path, ignored);
  });
}

}  // namespace gradstore::inspect
