// The program's arguments.
#pragma once

#include <iosfwd>

#include "commands.h"

namespace gradstore::inspect {

/// Parses, runs the command, and turns every failure into a message on `err` and a status. Never
/// throws.
ExitStatus run_command_line(int argc, const char* const* argv, std::ostream& out,
                            std::ostream& err);

}  // namespace gradstore::inspect
