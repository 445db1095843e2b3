package attack

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Processor is the processor time of a phase, in seconds. The processes that a process has
// waited for count as its own.
type Processor struct {
	Server    float64 `json:"server_seconds"`
	Attackers float64 `json:"attackers_seconds"`
	Honest    float64 `json:"honest_seconds"`

	// Others is the share of the machine that other programs used, from 0 to 1.
	Others float64 `json:"others"`
}

// add adds the time of one of a number of rounds.
func (p *Processor) add(other Processor, rounds int) {
	p.Server, p.Attackers, p.Honest = p.Server+other.Server, p.Attackers+other.Attackers, p.Honest+other.Honest
	p.Others += other.Others / float64(rounds)
}

// clockTicks is how many units /proc counts in a second, on every architecture of Linux that Go
// knows.
const clockTicks = 100

// processorTime returns the time that a process has used.
func processorTime(pid int) (seconds float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for i := 11; i <= 14 && i < len(fields); i++ { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		seconds += float64(n) / clockTicks
	}
	return seconds
}

// machineTime returns the time that the machine has worked, on all its processors.
func machineTime() (seconds float64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		// user, nice, system; idle, iowait; irq, softirq; guests count as users
		if i >= 1 && i <= 3 || i == 6 || i == 7 {
			n, _ := strconv.ParseInt(field, 10, 64)
			seconds += float64(n) / clockTicks
		}
	}
	return seconds
}

// measureProcessor begins to measure. The function that it returns ends it.
func measureProcessor(server, attackers int) func() Processor {
	read := func() (list [4]float64) {
		return [4]float64{processorTime(server), processorTime(attackers), processorTime(os.Getpid()), machineTime()}
	}
	began, before := time.Now(), read()
	return func() Processor {
		after, took := read(), time.Since(began).Seconds()
		for i := range after {
			after[i] -= before[i]
		}
		p := Processor{Server: after[0], Attackers: after[1], Honest: after[2]}
		p.Others = max(0, after[3]-after[0]-after[1]-after[2]) / (took * float64(runtime.NumCPU()))
		return p
	}
}
