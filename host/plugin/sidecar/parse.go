package sidecar

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"talon/internal/tomltable"
)

// worlds have functions that can fail.
var worlds = []string{"policy", "strategy", "throttle"}

// capabilities can be granted, each alone or by the group before its dot.
var capabilities = []string{
	"store.get", "store.query", "store.referenced",
	"held.get",
	"held.query",
	"git.has", "git.ref",
	"kv.get", "kv.set", "kv.delete", "kv.incr",
	"sets.contains",
	"bucket.take",
	"log",
	"metric",
}

// Bounds of what a side-car can say. The host's own limits may be lower.
const (
	maxPlace     = 1000
	maxFuel      = 1e12
	maxMemory    = 4 << 30
	maxOutput    = 64 << 20
	maxLog       = 1_000_000
	maxState     = 1 << 40
	maxTimeMS    = 10_000
	maxReads     = 100_000
	maxSets      = 64
	maxPath      = 4096
	maxReference = 1024
)

// Parse reads the text of a side-car. Empty text means all defaults.
func Parse(text []byte) (*File, error) {
	if _, err := scan(text); err != nil {
		return nil, err
	}
	keys, err := tomltable.Parse(text)
	if err != nil {
		return nil, err
	}
	t := table{reader: new(reader), keys: keys}
	f := &File{Mode: Enforce}
	f.read(t)
	if t.err != nil {
		return nil, t.err
	}
	return f, nil
}

func (f *File) read(t table) {
	if _, ok := t.keys["exec"]; ok {
		f.readProgram(t)
	} else {
		t.only("mode", "required", "place", "sha256", "signers", "capabilities", "on-failure", "budgets", "config", "sets", "exec")
	}
	if value, ok := t.get("mode"); ok {
		text, _ := value.(string)
		if f.Mode.UnmarshalText([]byte(text)) != nil {
			t.wrong("mode", "enforce, shadow or off")
		}
	}
	if value, ok := t.get("required"); ok {
		if f.Required, ok = value.(bool); !ok {
			t.wrong("required", "true or false")
		}
	}
	if _, ok := t.keys["place"]; ok {
		place := int(t.number("place", 0, maxPlace))
		f.Place = &place
	}
	f.readPin(t)
	f.readSigners(t)
	f.readCapabilities(t)
	f.readFailure(t)
	if budgets, ok := t.table("budgets"); ok {
		f.Budgets.read(budgets)
	}
	if config, ok := t.table("config"); ok {
		f.readConfig(config)
	}
	if sets, ok := t.table("sets"); ok {
		f.readSets(sets)
	}
}

func (f *File) readPin(t table) {
	value, ok := t.get("sha256")
	if !ok {
		return
	}
	text, _ := value.(string)
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != 32 {
		t.wrong("sha256", "the 64 hex digits that sha256sum prints for the module")
		return
	}
	f.SHA256 = hex.EncodeToString(sum)
}

func (f *File) readCapabilities(t table) {
	value, ok := t.get("capabilities")
	if !ok {
		return
	}
	list, ok := value.([]any)
	if !ok {
		t.wrong("capabilities", "a list of capabilities, such as [\"store\", \"log\"]")
		return
	}
	f.Capabilities = []string{}
	for _, item := range list {
		name, _ := item.(string)
		if !slices.ContainsFunc(capabilities, func(c string) bool { return c == name || group(c) == name }) {
			t.wrongItem("capabilities", item, "one of "+strings.Join(capabilities, ", ")+", or what stands before the dot for all of a group")
			return
		}
		if !slices.Contains(f.Capabilities, name) {
			f.Capabilities = append(f.Capabilities, name)
		}
	}
}

func group(capability string) string {
	name, _, _ := strings.Cut(capability, ".")
	return name
}

// readFailure takes one choice for all worlds, or a table with one for each.
func (f *File) readFailure(t table) {
	value, ok := t.get("on-failure")
	if !ok {
		return
	}
	f.OnFailure = map[string]OnFailure{}
	if text, ok := value.(string); ok {
		var choice OnFailure
		if choice.UnmarshalText([]byte(text)) != nil {
			t.wrong("on-failure", "closed, open or bundled")
		}
		for _, world := range worlds {
			f.OnFailure[world] = choice
		}
		return
	}
	if _, ok := value.(map[string]any); !ok {
		t.wrong("on-failure", "closed, open or bundled, or a table with one of these for each world")
		return
	}
	inner, _ := t.table("on-failure")
	inner.only(worlds...)
	for _, world := range worlds {
		value, ok := inner.get(world)
		if !ok {
			continue
		}
		var choice OnFailure
		text, _ := value.(string)
		if choice.UnmarshalText([]byte(text)) != nil {
			inner.wrong(world, "closed, open or bundled")
		}
		f.OnFailure[world] = choice
	}
}

func (b *Budgets) read(t table) {
	t.only("fuel", "memory", "output", "log-lines", "log-rate", "state", "time", "reads", "bytes", "host-calls")
	b.Fuel = t.number("fuel", 1, maxFuel)
	b.Memory = t.size("memory", 64<<10, maxMemory)
	b.Output = t.size("output", 1, maxOutput)
	b.LogLines = int(t.number("log-lines", 1, maxLog))
	b.LogRate = int(t.number("log-rate", 1, maxLog))
	b.State = t.size("state", 1, maxState)
	b.TimeMS = t.time("time", 1, maxTimeMS, "a time from 1ms to 10s, such as \"50ms\" or \"1s\"")
	b.Reads = int(t.number("reads", 1, maxReads))
	b.Bytes = t.size("bytes", 1, maxOutput)
	b.HostCalls = int(t.number("host-calls", 1, maxLog))
}

// readConfig takes the types that a setting of a module can have.
func (f *File) readConfig(t table) {
	f.Config = map[string]any{}
	for _, key := range t.names() {
		value, _ := t.get(key)
		items := []any{value}
		if list, ok := value.([]any); ok {
			items = list
		}
		for _, item := range items {
			switch item.(type) {
			case string, int64, float64, bool:
			default:
				t.wrong(key, "a string, a number, true or false, or a list of these")
			}
		}
		f.Config[key] = value
	}
}

func (f *File) readSets(t table) {
	for i, name := range t.names() {
		if i == maxSets {
			t.wrong(name, fmt.Sprintf("at most %d sets", maxSets))
		}
		if !isSetName(name) {
			t.wrong(name, "a set whose name has a-z, 0-9, - and _, at most 64")
		}
		inner, ok := t.table(name)
		if !ok {
			continue
		}
		inner.only("file", "list")
		set := Set{Name: name, File: inner.oneLine("file", maxPath), List: inner.oneLine("list", maxReference)}
		if len(inner.keys) != 1 {
			t.wrong(name, "file or list, one of the two")
		}
		f.Sets = append(f.Sets, set)
	}
}

func isSetName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// number returns a whole number within bounds, 0 if there is none.
func (t table) number(key string, low, limit int64) int64 {
	value, ok := t.get(key)
	if !ok {
		return 0
	}
	n, ok := value.(int64)
	if !ok || n < low || n > limit {
		t.wrong(key, fmt.Sprintf("a whole number from %d to %d", low, limit))
		return 0
	}
	return n
}

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

// size returns a number of bytes within bounds, 0 if there is none.
func (t table) size(key string, low, limit int64) int64 {
	value, ok := t.get(key)
	if !ok {
		return 0
	}
	n, ok := value.(int64)
	if text, is := value.(string); is {
		n, ok = parseSize(text)
	}
	if !ok || n < low || n > limit {
		t.wrong(key, fmt.Sprintf("a number of bytes from %d to %d, such as 65536 or \"16MiB\"", low, limit))
		return 0
	}
	return n
}

func parseSize(text string) (int64, bool) {
	for _, unit := range units {
		digits, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		return n * unit.bytes, err == nil && n >= 0 && n <= 1<<62/unit.bytes
	}
	return 0, false
}

// time returns milliseconds within bounds, 0 if there are none.
func (t table) time(key string, low, limit int64, want string) int64 {
	value, ok := t.get(key)
	if !ok {
		return 0
	}
	text, _ := value.(string)
	ms, ok := parseTime(text)
	if !ok || ms < low || ms > limit {
		t.wrong(key, want)
		return 0
	}
	return ms
}

// parseTime reads whole milliseconds or seconds.
func parseTime(text string) (ms int64, ok bool) {
	unit := int64(1)
	digits, ok := strings.CutSuffix(text, "ms")
	if !ok {
		unit = 1000
		if digits, ok = strings.CutSuffix(text, "s"); !ok {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int64(n) * unit, err == nil
}

// oneLine returns text that fits on one line, "" if there is none.
func (t table) oneLine(key string, limit int) string {
	value, ok := t.get(key)
	if !ok {
		return ""
	}
	text, _ := value.(string)
	if text == "" || len(text) > limit || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.wrong(key, fmt.Sprintf("text of one line, at most %d bytes", limit))
		return ""
	}
	return text
}
