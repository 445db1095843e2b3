package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"talon/host/config"
)

const (
	maxMemory   = 1 << 30   // that is taken where nobody says how much
	maxCache    = 256 << 20 // likewise
	besideCache = 128 << 20 // that a chosen cache leaves at least, if memory is not chosen
	minHeap     = 32 << 20  // below, the garbage collector would do nothing else
)

// memoryOf is how much this process is to stay within: what the operator chose, or a
// quarter of what there is.
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

// cacheOf is how much of it events and pages of the database have.
func cacheOf(cfg *config.Config) int64 {
	if cfg.Cache != 0 {
		return cfg.Cache
	}
	return min(maxCache, memoryOf(cfg)/2)
}

// checkMemory refuses a choice that contradicts itself.
func checkMemory(cfg *config.Config) error {
	if memory := memoryOf(cfg); cfg.Cache > memory/4*3 && cfg.Memory != 0 {
		return fmt.Errorf("a cache of %s does not fit into a memory of %s: want at most three quarters", mib(cfg.Cache), mib(memory))
	}
	return nil
}

// limitMemory bounds what Go's runtime takes by what SQLite and the modules, which it does
// not see, leave of the memory. It is called when the modules are loaded. GOMEMLIMIT wins.
func limitMemory(cfg *config.Config, log *slog.Logger) {
	// What loading the modules took is not needed again.
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

func mib(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }

// outsideOfGo is the memory of this process that belongs to no file and not to Go's
// runtime. It is 0 where the system does not say.
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
