package gitrepo

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	// maxFamily bounds the processes that one git is looked for among.
	maxFamily = 64

	// clockTick is the unit of times in /proc, which is fixed for programs.
	clockTick = time.Second / 100
)

// familyCPU returns the processor time of a process and all that it has started.
func familyCPU(pid int) (sum time.Duration) {
	family := []int{pid}
	for i := 0; i < len(family) && i < maxFamily; i++ {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", family[i]))
		if err != nil {
			continue // it has ended: its time is now its parent's
		}
		// After the name, which is in brackets and may hold anything, comes the third field.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		for field := 14; field <= 17 && field-3 < len(fields); field++ { // its own time, and that of those that have ended
			ticks, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
			sum += time.Duration(ticks) * clockTick
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", family[i], family[i]))
		for _, text := range bytes.Fields(children) {
			if child, err := strconv.Atoi(string(text)); err == nil {
				family = append(family, child)
			}
		}
	}
	return sum
}
