// Structured log lines: a constant event, everything else a field.
//
// Where they go, in this order:
//
//   1. to the spdlog logger named "gradstore", if the application has registered one, at whatever
//      time: it is looked up for each line;
//   2. to stderr, if the environment has GRADSTORE_LOG=<level> when the first line is written:
//      trace, debug, info, warn, error or off. That level and those after it are shown. Any other
//      value is named on stderr, once, and otherwise ignored;
//   3. nowhere.
//
// Only log.cpp includes spdlog.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace gradstore::log {

using Fields = std::initializer_list<std::pair<std::string_view, std::string>>;

void debug(std::string_view event, Fields fields = {});
void info(std::string_view event, Fields fields = {});
void warn(std::string_view event, Fields fields = {});
void error(std::string_view event, Fields fields = {});

}  // namespace gradstore::log
