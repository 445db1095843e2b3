package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"talon/host/config"
)

const (
	maxMemory   = 1 << 30   // that is taken where nobody says how much
	maxCache    = 256 << 20 // likewise
	besideCache = 128 << 20 // that a chosen cache leaves at least, if memory is not chosen
	minHeap     = 32 << 20  // below, the garbage collector would do nothing else
	ofModules   = 64 << 20  // the default modules: machine code and instances
	minCache    = 16 << 20  // that is taken where memory is short

	minHeadroom   = 32 << 20 // that the heap may grow by between two collections
	minScavenge   = 8 << 20  // that is worth a collection
	scavengeEvery = 2 * time.Second
)

// memoryOf returns the memory limit of this process: the operator's, or a quarter of the machine's.
func memoryOf(cfg *config.Config) int64 {
	if cfg.Memory != 0 {
		return cfg.Memory
	}
	memory := int64(maxMemory)
	if there := availableMemory("/"); there > 0 {
		memory = min(memory, there/4)
	}
	if cfg.Cache != 0 {
		memory = max(memory, cfg.Cache+besideCache)
	}
	return memory
}

// cacheOf is how much of it events and pages of the database have: half, less where the modules
// and the heap would not fit into the other half.
func cacheOf(cfg *config.Config) int64 {
	if cfg.Cache != 0 {
		return cfg.Cache
	}
	memory := memoryOf(cfg)
	return min(maxCache, memory/2, max(memory-ofModules-minHeap, minCache))
}

// checkMemory refuses a choice that contradicts itself.
func checkMemory(cfg *config.Config) error {
	if memory := memoryOf(cfg); cfg.Cache > memory/4*3 && cfg.Memory != 0 {
		return fmt.Errorf("a cache of %s does not fit into a memory of %s: want at most three quarters", mib(cfg.Cache), mib(memory))
	}
	return nil
}

// limitLoading bounds what Go's runtime takes while modules are loaded, which makes much garbage. On
// a machine with little memory a process that tests a module needs room at the same time.
func limitLoading(cfg *config.Config) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(memoryOf(cfg)-cacheOf(cfg)/2, minHeap))
	}
}

// limitMemory bounds what Go's runtime takes by what SQLite and the modules, which it does
// not see, leave of the memory. It is called when the modules are loaded. GOMEMLIMIT wins.
func limitMemory(cfg *config.Config, log *slog.Logger) {
	// The memory that loading the modules took is not needed again.
	debug.FreeOSMemory()
	memory, cache := memoryOf(cfg), cacheOf(cfg)
	modules := outsideOfGo()
	heap := max(memory-cache/2-modules, minHeap)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heap)
	} else {
		heap = debug.SetMemoryLimit(-1)
	}
	log.Info("memory is divided", "memory", mib(memory), "pages", mib(cache/2), "modules", mib(modules), "heap", mib(heap), "events", mib(cache/2))
}

// heapStats is what Go's runtime says of its heap.
type heapStats struct {
	live   int64 // after the last collection
	unused int64 // garbage at most, and pages that the runtime keeps for later
}

func readHeap() heapStats {
	samples := []rtmetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	rtmetrics.Read(samples)
	live, objects, free := int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64()), int64(samples[2].Value.Uint64())
	return heapStats{live, free + max(objects-live, 0)}
}

// gcPercent is the GOGC of a heap. Most of a large one are texts of events, which cost the
// garbage collector little: the heap need not double for them.
func (h heapStats) gcPercent() int {
	if h.live <= minHeadroom {
		return 100
	}
	return int(100 * max(minHeadroom, h.live/2) / h.live)
}

// scavengeable reports whether the process, which used that much processor time since the
// last check, is idle and has memory to return.
func (h heapStats) scavengeable(cpu time.Duration) bool {
	return cpu < scavengeEvery/20 && h.unused >= max(minScavenge, h.live/4)
}

// runScavenger adapts GOGC to the size of the heap, and returns unused memory to the system
// while the process is idle, until ctx ends. The runtime alone would keep what the heap had
// at the last collection, which is due only after as much again is allocated, or after two
// minutes. GOGC in the environment wins.
func runScavenger(ctx context.Context) error {
	ticker := time.NewTicker(scavengeEvery)
	defer ticker.Stop()
	before, _ := usage()
	for percent := 100; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		h := readHeap()
		if want := h.gcPercent(); os.Getenv("GOGC") == "" && (want > percent+5 || want < percent-5) {
			percent = want
			debug.SetGCPercent(percent)
		}
		cpu, _ := usage()
		if h.scavengeable(cpu - before) {
			debug.FreeOSMemory()
			cpu, _ = usage()
		}
		before = cpu
	}
}

func mib(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }

// outsideOfGo returns the memory of this process that neither a file nor Go's runtime holds, or 0
// if the system does not report it.
func outsideOfGo() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			samples := []rtmetrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
			rtmetrics.Read(samples)
			return max(kib<<10-int64(samples[0].Value.Uint64()-samples[1].Value.Uint64()), 0)
		}
	}
	return 0
}

// availableMemory is what the machine has, or what the container may use if that is less;
// 0 where the system does not say. Files of the system are looked for below root.
func availableMemory(root string) int64 {
	var info unix.Sysinfo_t
	there := int64(0)
	if unix.Sysinfo(&info) == nil {
		there = int64(uint64(info.Totalram) * uint64(info.Unit))
	}
	for _, limit := range containerLimits(root) {
		if there == 0 || limit < there {
			there = limit
		}
	}
	return there
}

// containerLimits are the limits of memory of the control groups that this process is in,
// of either version, and of those around them. In a container the path of a group may be
// that of the machine, and its own group the root of what is mounted.
func containerLimits(root string) (limits []int64) {
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			if !strings.Contains(","+fields[1]+",", ",memory,") {
				continue
			}
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for group := path.Join("/", fields[2]); ; group = path.Dir(group) {
			text, err := os.ReadFile(filepath.Join(root, mount, group, file))
			// Without a limit, it is "max", or nearly the largest number.
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 {
				limits = append(limits, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return limits
}
