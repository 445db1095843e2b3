package guest

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// CheckExecutable returns why this process cannot run machine code of modules, nil if it can.
// wazero writes code to memory and makes it executable; some systems forbid that, and wazero then
// panics.
func CheckExecutable() error { return executable() }

var executable = sync.OnceValue(func() error {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("reserve memory for the code of modules: %w", err)
	}
	err = unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC)
	if free := unix.Munmap(page); free != nil {
		err = errors.Join(err, free)
	}
	if err != nil {
		return fmt.Errorf("this process may not make memory executable, as modules need (%w): set MemoryDenyWriteExecute=no in the unit of systemd, "+
			"or allow it in the rules of seccomp or SELinux", err)
	}
	return nil
})
