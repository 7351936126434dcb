package mpi

import (
	"fmt"

	"github.com/berth-ml/berth/executor/ranks"
)

// function is one of MPI's.
type function int

const (
	initThread function = iota
	getVersion
	libraryVersion
	commRank
	commSize
	setErrors
	isend
	irecv
	test
	abort
	finalize
	allreduce
	numFunctions
)

var names = [numFunctions]string{
	"MPI_Init_thread", "MPI_Get_version", "MPI_Get_library_version", "MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_set_errhandler",
	"MPI_Isend", "MPI_Irecv", "MPI_Test", "MPI_Abort", "MPI_Finalize", "MPI_Allreduce",
}

// handles are what differs from ABI to ABI.
type handles struct {
	world, byte, errorsReturn uintptr
	float, sum, inPlace       uintptr // for Allreduce; float is 0 where they are not known
	funneled                  uintptr
}

// abi finds the handles of a loaded library.
//
// The standard ABI comes first: the library that has it may load another one, whose symbols are found in it, too.
func (l *library) abi(m *memory) (h handles, err error) {
	a, b := &m.ints[0], &m.ints[1]
	call(l.at[getVersion], address(a), address(b))
	major, minor := *a, *b
	if f, ok := l.find("MPI_Abi_get_version"); ok && int32(call(f, address(a), address(b))) == 0 && *a >= 1 {
		if major < 5 {
			return h, fmt.Errorf("%w: %s has a draft of the standard ABI (MPI %d.%d): use its own library", ranks.ErrLibrary, l.file, major, minor)
		}
		return handles{world: 0x101, byte: 0x247, errorsReturn: 0x143, funneled: 1024}, nil
	}
	if world, ok := l.find("ompi_mpi_comm_world"); ok {
		h = handles{world: world, funneled: 1, inPlace: 1}
		for name, to := range map[string]*uintptr{
			"ompi_mpi_byte": &h.byte, "ompi_mpi_errors_return": &h.errorsReturn, "ompi_mpi_float": &h.float, "ompi_mpi_op_sum": &h.sum,
		} {
			if *to, ok = l.find(name); !ok {
				return h, fmt.Errorf("%w: %s has no %s", ranks.ErrLibrary, l.file, name)
			}
		}
		return h, nil
	}
	if _, ok := l.find("MPIR_Err_create_code"); ok { // MPICH, and those with its ABI
		return handles{world: 0x44000000, byte: 0x4c00010d, errorsReturn: 0x54000001, float: 0x4c00040a, sum: 0x58000003, inPlace: ^uintptr(0), funneled: 1}, nil
	}
	return h, fmt.Errorf("%w: %s has an ABI that is not known: Open MPI, MPICH and those like it, and MPI 5 have known ones", ranks.ErrLibrary, l.file)
}
