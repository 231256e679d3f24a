// How a skeleton is built: by creating the file twice, in memory.
//
// Where records and slices lie depends on the size of the metadata, which only libhdf5 knows.
//
//   1. Create every object with the raw data placed far away: that tells the metadata's size.
//   2. Place the parts with that size, and create every object again: that gives the bytes.
//
// Metadata holds offsets as eight bytes each, so its size does not depend on their values. That,
// and that libhdf5 took over every offset, is checked rather than believed.

#include "hdf5/skeleton_builder.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/ensure.h"
#include "gradstore/error.h"
#include "hdf5/link_name.h"
#include "hdf5/memory_driver.h"

namespace gradstore::hdf5 {

namespace {

using archive::Extent;
using archive::PartSizes;
using archive::Placement;
using archive::Skeleton;

// More than any metadata: where the first pass begins to place raw data.
constexpr std::uint64_t kFarAway = std::uint64_t{1} << 50;

// Note [One lock]: Debian's libhdf5 is thread-safe, but others are not, and it has a lock of its
// own around every call anyway.
std::mutex& library_lock() {
  static std::mutex mutex;
  return mutex;
}

H5PropertyList file_access() {
  H5PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "Cannot make file access properties");
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18),
        "Cannot choose the format of HDF5 1.8");
  check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_SEMI), "Cannot choose the close degree");
  return access;
}

H5PropertyList file_creation() {
  H5PropertyList creation(H5Pcreate(H5P_FILE_CREATE), "Cannot make file creation properties");
  check(H5Pset_userblock(creation.get(), archive::kSealBytes), "Cannot reserve the user block");
  check(H5Pset_obj_track_times(creation.get(), false), "Cannot turn off times");
  return creation;
}

H5PropertyList group_creation() {
  H5PropertyList creation(H5Pcreate(H5P_GROUP_CREATE), "Cannot make group creation properties");
  check(H5Pset_obj_track_times(creation.get(), false), "Cannot turn off times");
  return creation;
}

H5PropertyList dataset_creation() {
  H5PropertyList creation(H5Pcreate(H5P_DATASET_CREATE), "Cannot make dataset creation properties");
  check(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), "Cannot choose contiguous storage");
  check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "Cannot choose early allocation");
  check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "Cannot turn off filling");
  check(H5Pset_obj_track_times(creation.get(), false), "Cannot turn off times");
  // Saves 160 bytes a dataset.
  check(H5Pset_dset_no_attrs_hint(creation.get(), true), "Cannot choose a minimal header");
  return creation;
}

// A little-endian float of two bytes: sign, exponent, mantissa.
H5Type two_byte_float(std::size_t exponent_bits) {
  const std::size_t mantissa_bits = 15 - exponent_bits;
  H5Type type(H5Tcopy(H5T_IEEE_F32LE), "Cannot copy a float type");
  check(H5Tset_fields(type.get(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits),
        "Cannot set the fields of a float type");
  check(H5Tset_size(type.get(), 2), "Cannot set the size of a float type");
  check(H5Tset_ebias(type.get(), (std::size_t{1} << (exponent_bits - 1)) - 1),
        "Cannot set the bias of a float type");
  return type;
}

// As h5py has it: an enumeration over bytes.
H5Type boolean_type() {
  H5Type type(H5Tenum_create(H5T_STD_I8LE), "Cannot make the type of booleans");
  for (const std::int8_t value : {std::int8_t{0}, std::int8_t{1}}) {
    check(H5Tenum_insert(type.get(), value == 0 ? "FALSE" : "TRUE", &value),
          "Cannot name the values of the type of booleans");
  }
  return type;
}

// As h5py has it: a compound of the parts.
H5Type complex_of(hid_t part) {
  const std::size_t size = H5Tget_size(part);
  H5Type type(H5Tcreate(H5T_COMPOUND, 2 * size), "Cannot make a complex type");
  check(H5Tinsert(type.get(), "r", 0, part), "Cannot give a complex type its real part");
  check(H5Tinsert(type.get(), "i", size, part), "Cannot give a complex type its imaginary part");
  return type;
}

// HDF5 has no type for these: integers of the same size, and an attribute `dtype`.
bool kept_as_bytes(DType dtype) {
  return numbers_per_element(dtype) == 0 ||
         (dtype >= DType::float8_e5m2 && dtype <= DType::float8_e8m0fnu);
}

H5Type padded_text(std::uint64_t length) {
  H5Type type(H5Tcopy(H5T_C_S1), "Cannot copy the string type");
  check(H5Tset_size(type.get(), length), "Cannot set the length of a string type");
  check(H5Tset_strpad(type.get(), H5T_STR_SPACEPAD), "Cannot set the padding of a string type");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "Cannot set the encoding of a string type");
  return type;
}

// Creates every object of one file. Parents are opened before and closed after their children.
class FileMaker {
 public:
  FileMaker(const Layout& layout, const Placement& placement,
            const std::shared_ptr<MemoryFile>& memory)
      : layout_(layout), placement_(placement), file_(create_file(memory)) {}

  void make() {
    make_records();
    if (layout_.kind == LayoutKind::gradients) {
      make_gradients();
    } else {
      make_state();
    }
    file_.close("Cannot write the HDF5 metadata");
  }

 private:
  H5File create_file(const std::shared_ptr<MemoryFile>& memory) {
    const auto access = file_access();
    use_memory_file(access.get(), driver_, memory);
    const auto creation = file_creation();
    return {H5Fcreate("skeleton", H5F_ACC_TRUNC, creation.get(), access.get()),
            "Cannot create the file in memory"};
  }

  void make_records() {
    const std::uint64_t slot = placement_.manifest.length;
    make_dataset(file_.get(), "layout", H5T_STD_U8LE, {{placement_.layout.length}},
                 placement_.layout);
    make_dataset(file_.get(), "fingerprints", H5T_STD_U8LE, {{placement_.fingerprints.length}},
                 placement_.fingerprints);
    make_dataset(file_.get(), "manifest", padded_text(slot).get(), {}, placement_.manifest);
  }

  void make_gradients() {
    const auto root = make_group(file_.get(), "gradients", group_creation_);
    std::size_t p = 0;
    std::size_t s = 0;
    for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
      const auto id = std::to_string(layout_.groups[g].id);
      const auto group = make_group(root.get(), id, group_creation_);
      for (; p < layout_.params.size() && layout_.params[p].group == g; ++p) {
        const auto first = s;
        while (s < layout_.slices.size() && layout_.slices[s].param == p) ++s;
        const auto param = make_param(group.get(), link_name(layout_.params[p].name), s - first);
        for (std::size_t i = first; i < s; ++i) {
          make_slice(param.get(), std::to_string(layout_.slices[i].position), i);
        }
      }
    }
  }

  void make_state() {
    const auto root = make_group(file_.get(), "state", group_creation_);
    for (std::size_t p = 0; p < layout_.params.size(); ++p) {
      make_slice(root.get(), link_name(layout_.params[p].name), p);
    }
  }

  // Reserves just the room that the links take in the group's header: saves 70 bytes a param.
  H5Group make_param(hid_t parent, const std::string& link, std::size_t num_slices) {
    const auto links = static_cast<unsigned>(std::min<std::size_t>(num_slices, 1000));
    const auto longest_link = static_cast<unsigned>(std::to_string(num_slices).size());
    check(H5Pset_est_link_info(param_creation_.get(), links, longest_link),
          "Cannot announce a param's slices");
    return make_group(parent, link, param_creation_);
  }

  static H5Group make_group(hid_t parent, const std::string& link, const H5PropertyList& creation) {
    const hid_t id = H5Gcreate2(parent, link.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT);
    if (id < 0) refuse_if_taken(parent, link);
    return {id, "Cannot create a group"};
  }

  void make_slice(hid_t parent, const std::string& link, std::size_t s) {
    const auto& slice = layout_.slices[s];
    const auto& extent = placement_.slice_extents[s];
    if (slice.alias_of) {
      make_alias(parent, link, *slice.alias_of);
    } else if (slice.sparse) {
      make_sparse(parent, link, slice, extent.offset);
    } else {
      make_elements(parent, link, slice.dtype, slice.shape, extent);
    }
  }

  // A second link to what slice `of` is, wherever that lies.
  void make_alias(hid_t parent, const std::string& link, std::size_t of) {
    const auto target = path_of_slice(of);
    if (H5Lcreate_hard(file_.get(), target.c_str(), parent, link.c_str(), H5P_DEFAULT,
                       H5P_DEFAULT) < 0) {
      refuse_if_taken(parent, link);
      throw_h5_error("Cannot link to " + printable(target));
    }
  }

  std::string path_of_slice(std::size_t s) const {
    const auto& slice = layout_.slices[s];
    const auto& param = layout_.params[slice.param];
    const auto name = link_name(param.name);
    if (layout_.kind == LayoutKind::state) return "/state/" + name;
    return "/gradients/" + std::to_string(layout_.groups[param.group].id) + "/" + name + "/" +
           std::to_string(slice.position);
  }

  void make_sparse(hid_t parent, const std::string& link, const SliceSpec& slice,
                   std::uint64_t offset) {
    const auto parts = sparse_parts(slice);
    const auto at = [offset](const SparseParts::Part& part) {
      return Extent{offset + part.offset, part.length};
    };
    const auto group = make_group(parent, link, group_creation_);
    add_shape(group.get(), slice.shape);
    make_dataset(group.get(), "entries", H5T_STD_U64LE, {2}, at(parts.header));
    make_dataset(group.get(), "indices", H5T_STD_I64LE,
                 {slice.sparse->sparse_dims, slice.sparse->capacity}, at(parts.indices));
    std::vector<std::uint64_t> shape{slice.sparse->capacity};
    shape.insert(shape.end(), slice.shape.begin() + slice.sparse->sparse_dims, slice.shape.end());
    make_elements(group.get(), "values", slice.dtype, shape, at(parts.values));
  }

  void make_elements(hid_t parent, const std::string& link, DType dtype,
                     const std::vector<std::uint64_t>& shape, const Extent& extent) {
    const auto dataset = make_dataset(parent, link, type_of(dtype), shape, extent);
    if (!kept_as_bytes(dtype)) return;
    const std::string name(name_of(dtype));
    H5Type type(H5Tcopy(H5T_C_S1), "Cannot copy the string type");
    check(H5Tset_size(type.get(), name.size()), "Cannot set the length of a string type");
    add_attribute(dataset.get(), "dtype", type.get(), {}, name.data());
  }

  static void add_shape(hid_t object, const std::vector<std::uint64_t>& shape) {
    const std::uint64_t none = 0;  // For libhdf5, which wants an address even for no elements.
    add_attribute(object, "shape", H5T_STD_U64LE, {{shape.size()}},
                  shape.empty() ? &none : shape.data());
  }

  static void add_attribute(hid_t object, const char* name, hid_t type,
                            const std::vector<hsize_t>& extents, const void* value) {
    const H5Space space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                        "Cannot make an attribute's dataspace");
    const H5Attribute attribute(
        H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
        "Cannot create an attribute");
    check(H5Awrite(attribute.get(), type, value), "Cannot write an attribute");
  }

  H5Dataset make_dataset(hid_t parent, const std::string& link, hid_t type,
                         const std::vector<std::uint64_t>& shape, const Extent& extent) {
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    const H5Space space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                        "Cannot make a dataspace");
    const hid_t id = H5Dcreate2(parent, link.c_str(), type, space.get(), H5P_DEFAULT,
                                dataset_creation_.get(), H5P_DEFAULT);
    if (id < 0) refuse_if_taken(parent, link);
    H5Dataset dataset(id, "Cannot create a dataset");
    // Without bytes there is no offset: H5Dget_offset would give one inside the seal.
    if (extent.length > 0) {
      ensure(H5Dget_offset(dataset.get()) == extent.offset, "a dataset lies where it was placed");
    }
    return dataset;
  }

  static void refuse_if_taken(hid_t parent, const std::string& link) {
    if (H5Lexists(parent, link.c_str(), H5P_DEFAULT) <= 0) return;
    std::string path(512, '\0');
    const auto length = H5Iget_name(parent, path.data(), path.size());
    path.resize(
        std::min(path.size() - 1, static_cast<std::size_t>(std::max(length, decltype(length){0}))));
    throw Error(ErrorCode::invalid_argument, "Two names of the layout give the link " +
                                                 printable(link) + " in " + printable(path));
  }

  hid_t type_of(DType dtype) const {
    switch (dtype) {
      case DType::float16: return float16_.get();
      case DType::bfloat16: return bfloat16_.get();
      case DType::float32: return H5T_IEEE_F32LE;
      case DType::float64: return H5T_IEEE_F64LE;
      case DType::int8: return H5T_STD_I8LE;
      case DType::int16: return H5T_STD_I16LE;
      case DType::int32: return H5T_STD_I32LE;
      case DType::int64: return H5T_STD_I64LE;
      case DType::uint8: return H5T_STD_U8LE;
      case DType::boolean: return boolean_.get();
      case DType::uint16: return H5T_STD_U16LE;
      case DType::uint32: return H5T_STD_U32LE;
      case DType::uint64: return H5T_STD_U64LE;
      case DType::complex32: return complex32_.get();
      case DType::complex64: return complex64_.get();
      case DType::complex128: return complex128_.get();
      default: break;
    }
    ensure(kept_as_bytes(dtype), "every dtype has an HDF5 type");
    return size_of(dtype) == 1 ? H5T_STD_U8LE : H5T_STD_U16LE;
  }

  const Layout& layout_;
  const Placement& placement_;
  H5Driver driver_ = register_memory_driver();
  H5PropertyList group_creation_ = group_creation();
  H5PropertyList param_creation_ = group_creation();
  H5PropertyList dataset_creation_ = dataset_creation();
  H5Type float16_ = two_byte_float(5);
  H5Type bfloat16_ = two_byte_float(8);
  H5Type boolean_ = boolean_type();
  H5Type complex32_ = complex_of(float16_.get());
  H5Type complex64_ = complex_of(H5T_IEEE_F32LE);
  H5Type complex128_ = complex_of(H5T_IEEE_F64LE);
  H5File file_;
};

// The end of the file according to version 2 of HDF5's superblock, which lies first.
std::uint64_t end_in_superblock(const std::vector<std::byte>& metadata) {
  constexpr std::size_t kVersion = 8;
  constexpr std::size_t kEnd = 28;
  ensure(metadata.size() > kEnd + 8, "metadata begins with a superblock");
  ensure(metadata[kVersion] == std::byte{2}, "the superblock is that of HDF5 1.8");
  std::uint64_t end = 0;
  std::memcpy(&end, metadata.data() + kEnd, sizeof end);
  return end;
}

// The metadata of a file whose raw data lies where `placement` says.
std::vector<std::byte> make_metadata(const Layout& layout, const Placement& placement,
                                     std::uint64_t metadata_hint = 0) {
  const auto memory = std::make_shared<MemoryFile>(
      MemoryImage(placement, archive::dataset_extents(layout, placement), metadata_hint));
  try {
    FileMaker(layout, placement, memory).make();
  } catch (const Error&) {
    // What libhdf5 reports of a failure in its driver is only that there was one.
    if (memory->failure) std::rethrow_exception(memory->failure);
    throw;
  }
  if (memory->failure) std::rethrow_exception(memory->failure);
  ensure(memory->image.all_raw_allocated(), "every dataset with bytes has been created");
  return memory->image.take_metadata();
}

// Refuses what the structure of a layout allows and HDF5 or our paths cannot express.
void require_expressible(const Layout& layout) {
  for (const auto& slice : layout.slices) {
    if (slice.shape.size() > H5S_MAX_RANK) {
      throw Error(ErrorCode::invalid_argument,
                  "A slice of " + printable(layout.params[slice.param].name) + " has " +
                      std::to_string(slice.shape.size()) + " dimensions; HDF5 takes at most " +
                      std::to_string(H5S_MAX_RANK));
    }
  }
  if (layout.kind != LayoutKind::state) return;
  std::vector<std::uint32_t> slices(layout.params.size());
  for (const auto& slice : layout.slices) ++slices[slice.param];
  for (std::size_t p = 0; p < slices.size(); ++p) {
    if (slices[p] != 1) {
      throw Error(ErrorCode::corrupt, "Layout record: state tensor " +
                                          printable(layout.params[p].name) + " has " +
                                          std::to_string(slices[p]) + " slices, not one");
    }
  }
}

class H5SkeletonBuilder : public archive::SkeletonBuilder {
 public:
  Skeleton build(const Layout& layout, const PartSizes& sizes) override {
    validate(layout);
    require_expressible(layout);
    const std::lock_guard lock(library_lock());
    const H5SilenceErrors silence;
    auto all_sizes = sizes;

    all_sizes.metadata = kFarAway;
    const auto measured = make_metadata(layout, archive::place(layout, all_sizes)).size();

    all_sizes.metadata = measured;
    Skeleton skeleton;
    skeleton.placement = archive::place(layout, all_sizes);
    skeleton.metadata = make_metadata(layout, skeleton.placement, measured);

    ensure(skeleton.metadata.size() == measured,
           "metadata has the same size wherever raw data lies");
    ensure(end_in_superblock(skeleton.metadata) == skeleton.placement.hdf5_end,
           "HDF5 and placement agree on the file's end");
    return skeleton;
  }
};

}  // namespace

std::unique_ptr<archive::SkeletonBuilder> make_skeleton_builder() {
  return std::make_unique<H5SkeletonBuilder>();
}

}  // namespace gradstore::hdf5
