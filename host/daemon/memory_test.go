package daemon

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/config"
)

func TestContainerLimits(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  []int64
	}{
		"none":      {map[string]string{}, nil},
		"no limit":  {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, nil},
		"container": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"}, []int64{256 << 20}},
		"service": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/talon.service\n",
			"sys/fs/cgroup/system.slice/talon.service/memory.max": "536870912\n",
			"sys/fs/cgroup/system.slice/memory.max":               "268435456\n",
		}, []int64{512 << 20, 256 << 20}},
		"path of the machine": {map[string]string{
			"proc/self/cgroup": "0::/docker/0123\n", "sys/fs/cgroup/memory.max": "268435456\n",
		}, []int64{256 << 20}},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/docker/0123\n0::/\n",
			"sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes": "134217728\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":             "9223372036854771712\n",
		}, []int64{128 << 20, 9223372036854771712}},
		"garbage": {map[string]string{"proc/self/cgroup": "0:\nx\n0::../../..\n", "sys/fs/cgroup/memory.max": "much"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range test.files {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := containerLimits(root); !slices.Equal(got, test.want) {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
	if n := availableMemory("/"); n < 1<<20 {
		t.Errorf("this machine has %d bytes", n)
	}
}

func TestMemoryIsDivided(t *testing.T) {
	for name, test := range map[string]struct {
		memory, cache         int64
		wantMemory, wantCache int64
	}{
		"smallest":      {64 << 20, 0, 64 << 20, 16 << 20},
		"small":         {128 << 20, 0, 128 << 20, 32 << 20},
		"usual":         {256 << 20, 0, 256 << 20, 128 << 20},
		"large":         {4 << 30, 0, 4 << 30, maxCache},
		"cache":         {0, 4 << 30, 4<<30 + besideCache, 4 << 30},
		"both":          {1 << 30, 768 << 20, 1 << 30, 768 << 20},
		"no room":       {16 << 20, 0, 16 << 20, 8 << 20},
		"cache without": {1 << 30, 1 << 20, 1 << 30, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &config.Config{Memory: test.memory, Cache: test.cache}
			if memory, cache := memoryOf(cfg), cacheOf(cfg); memory != test.wantMemory || cache != test.wantCache {
				t.Errorf("%s with a cache of %s", mib(memory), mib(cache))
			}
			if err := checkMemory(cfg); err != nil {
				t.Error(err)
			}
		})
	}
	if memory := memoryOf(new(config.Config)); memory > maxMemory || memory > availableMemory("/")/4 {
		t.Errorf("%s where nobody chose", mib(memory))
	}
	if err := checkMemory(&config.Config{Memory: 1 << 30, Cache: 1 << 30}); err == nil || !strings.Contains(err.Error(), "1024 MiB does not fit") {
		t.Errorf("a cache of all memory: %v", err)
	}
}

func TestHeadroomOfHeap(t *testing.T) {
	for name, test := range map[string]struct {
		heap        heapStats
		cpu         time.Duration
		wantPercent int
		wantScav    bool
	}{
		"small":          {heapStats{20 << 20, 7 << 20}, 0, 100, false},
		"after work":     {heapStats{64 << 20, 80 << 20}, scavengeEvery / 100, 50, true},
		"at work":        {heapStats{64 << 20, 80 << 20}, scavengeEvery, 50, false},
		"large":          {heapStats{300 << 20, 74 << 20}, 0, 50, false},
		"large at rest":  {heapStats{300 << 20, 76 << 20}, 0, 50, true},
		"never measured": {heapStats{0, 0}, 0, 100, false},
	} {
		t.Run(name, func(t *testing.T) {
			if percent := test.heap.gcPercent(); percent != test.wantPercent {
				t.Errorf("the heap may grow by %d %%, want %d", percent, test.wantPercent)
			}
			if got := test.heap.scavengeable(test.cpu); got != test.wantScav {
				t.Errorf("scavengeable: %v", got)
			}
		})
	}
}

var ballast []byte

func TestHeapIsReturned(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	ballast = make([]byte, 64<<20)
	runtime.GC()
	ballast = nil
	runtime.GC() // leaves pages that the runtime keeps
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*scavengeEvery)
		defer cancel()
		if err := runScavenger(ctx); err != nil {
			t.Error(err)
		}
	})
	if h := readHeap(); h.unused > 32<<20 {
		t.Errorf("%s are not used and not returned", mib(h.unused))
	}
}
