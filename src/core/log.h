// Structured log lines: a constant event, everything else a field.
//
// They go to the spdlog logger named "gradstore" if the application registered one; otherwise
// nowhere. The library installs no sinks. Only log.cpp includes spdlog.
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
