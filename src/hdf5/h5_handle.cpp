#include "hdf5/h5_handle.h"

#include "gradstore/error.h"

namespace gradstore::hdf5 {

namespace {

// Appends one line of libhdf5's error stack to the std::string at `text`.
herr_t append_line(unsigned, const H5E_error2_t* line, void* text) {
  try {
    auto& message = *static_cast<std::string*>(text);
    message += ": ";
    if (line->func_name != nullptr) message += std::string(line->func_name) + ": ";
    if (line->desc != nullptr) message += line->desc;
    return 0;
  } catch (...) {
    return -1;  // No exception may pass through C; the rest of the stack is left out.
  }
}

}  // namespace

void throw_h5_error(const std::string& what) {
  std::string message = what;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_line, &message);
  throw Error(ErrorCode::internal, message);
}

}  // namespace gradstore::hdf5
