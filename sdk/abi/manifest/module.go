package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// ErrNone says that a module has no manifest.
var ErrNone = errors.New("the module has no manifest")

var errData = errors.New("the data section is malformed")

// key starts a manifest. In the bytes of a module it counts only as the first
// key of an object.
const key = `"talon_manifest"`

const (
	maxCandidates = 16      // objects that are looked at
	maxSegments   = 1 << 20 // a Go module has some ten thousand
)

// FromModule finds and parses the manifest in the data segments of a WebAssembly
// module. Exactly one must be there. Linkers split data as they like, so
// segments of the first memory are put together by address first.
func FromModule(wasm []byte) (*Manifest, error) {
	segments, err := dataSegments(wasm)
	if err != nil {
		return nil, err
	}
	var found *Manifest
	var firstErr error
	candidates := 0
	for run := range join(segments) {
		for rest := run; ; {
			at := bytes.Index(rest, []byte(key))
			if at < 0 {
				break
			}
			before := bytes.TrimRight(rest[:at], " \t\r\n")
			after := bytes.TrimLeft(rest[at+len(key):], " \t\r\n")
			text := rest[max(len(before)-1, 0):]
			rest = rest[at+len(key):]
			if !bytes.HasSuffix(before, []byte("{")) || !bytes.HasPrefix(after, []byte(":")) {
				continue
			}
			if candidates++; candidates > maxCandidates {
				return nil, errors.New("the module has too many manifests")
			}
			m, err := Parse(text)
			switch {
			case err != nil:
				firstErr = cmp.Or(firstErr, err)
			case found != nil:
				return nil, fmt.Errorf("the module has two manifests, %q and %q", found.Name, m.Name)
			default:
				found = m
			}
		}
	}
	switch {
	case firstErr != nil:
		return nil, firstErr
	case found == nil:
		return nil, ErrNone
	}
	return found, nil
}

// sdkMark begins the text by which an SDK names itself in the data of a module. Its language, a
// space, the version and a zero byte follow. They may be missing at the end of the data.
const sdkMark = "talon-sdk/"

// SDK says with which SDK a module is built, such as "go 1.0.0". It is empty for one
// that is built without.
func SDK(wasm []byte) string {
	segments, err := dataSegments(wasm)
	if err != nil {
		return ""
	}
	for run := range join(segments) {
		for {
			at := bytes.Index(run, []byte(sdkMark))
			if at < 0 {
				break
			}
			run = run[at+len(sdkMark):]
			text, _, ended := bytes.Cut(run[:min(len(run), maxSDK)], []byte{0})
			language, version, ok := strings.Cut(string(text), " ")
			if (ended || len(run) < maxSDK) && ok && onlyOf(language, "abcdefghijklmnopqrstuvwxyz") && onlyOf(version, "0123456789.") {
				return string(text)
			}
		}
	}
	return ""
}

// maxSDK bounds the name and version of an SDK.
const maxSDK = 64

func onlyOf(s, chars string) bool { return s != "" && strings.Trim(s, chars) == "" }

// segment is a piece of initialized data. A passive one has no address.
type segment struct {
	addr    uint64
	data    []byte
	passive bool
}

// join puts segments whose addresses follow each other together. It changes the order of
// the segments.
func join(segments []segment) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		active := segments[:0]
		for _, s := range segments {
			switch {
			case !s.passive:
				active = append(active, s)
			case !yield(s.data):
				return
			}
		}
		byAddress := func(a, b segment) int { return cmp.Compare(a.addr, b.addr) }
		if !slices.IsSortedFunc(active, byAddress) {
			slices.SortStableFunc(active, byAddress)
		}
		for i := 0; i < len(active); {
			run, end := active[i].data, active[i].addr+uint64(len(active[i].data))
			next := i + 1
			for next < len(active) && active[next].addr == end {
				end += uint64(len(active[next].data))
				next++
			}
			if next > i+1 {
				run = make([]byte, 0, end-active[i].addr)
				for _, s := range active[i:next] {
					run = append(run, s.data...)
				}
			}
			if !yield(run) {
				return
			}
			i = next
		}
	}
}

// dataSegments returns the data segments of the first memory.
func dataSegments(wasm []byte) ([]segment, error) {
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, errors.New("the file is not a WebAssembly module")
	}
	r := binaryReader{rest: wasm[8:]}
	var segments []segment
	for len(r.rest) > 0 && !r.bad {
		id := r.byte()
		body := r.bytes(r.u32())
		if id == 11 && !r.bad {
			var err error
			if segments, err = parseData(body, segments); err != nil {
				return nil, err
			}
		}
	}
	if r.bad {
		return nil, errors.New("the module is truncated")
	}
	return segments, nil
}

func parseData(body []byte, segments []segment) ([]segment, error) {
	r := binaryReader{rest: body}
	count := r.u32()
	segments = slices.Grow(segments, int(min(count, maxSegments, uint32(len(r.rest)/4)))) // each has as many bytes
	for i := uint32(0); i < count && !r.bad; i++ {
		flag := r.u32()
		memory := uint32(0)
		if flag == 2 {
			memory = r.u32()
		}
		s := segment{passive: flag == 1}
		known := true
		switch flag {
		case 0, 2:
			s.addr, known = r.offset()
		case 1:
		default:
			return nil, errData
		}
		s.data = r.bytes(r.u32())
		if memory == 0 && known && len(s.data) > 0 {
			if len(segments) == maxSegments {
				return nil, errors.New("the module has too many data segments")
			}
			segments = append(segments, s)
		}
	}
	if r.bad {
		return nil, errData
	}
	return segments, nil
}

// binaryReader reads the WebAssembly binary format. bad is set for good when
// the bytes end early.
type binaryReader struct {
	rest []byte
	bad  bool
}

func (r *binaryReader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *binaryReader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *binaryReader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.bad = true
	return 0
}

// offset reads a constant expression. It reports false for one whose value is
// known only when the module runs.
func (r *binaryReader) offset() (uint64, bool) {
	switch op := r.byte(); op {
	case 0x41: // i32.const
		var v int64
		shift := 0
		for ; shift < 35; shift += 7 {
			c := r.byte()
			v |= int64(c&0x7f) << shift
			if c < 0x80 {
				if c&0x40 != 0 {
					v |= -1 << (shift + 7)
				}
				break
			}
		}
		r.bad = r.bad || shift >= 35 || r.byte() != 0x0b
		return uint64(uint32(v)), true
	case 0x23: // global.get
		r.u32()
		r.bad = r.bad || r.byte() != 0x0b
		return 0, false
	}
	r.bad = true
	return 0, false
}

// Worlds other than [WorldPolicy].
const (
	WorldStrategy = "strategy" // what to subscribe to on which relay, and when
	WorldThrottle = "throttle" // how hard to press on other people's servers
)

// worlds holds each world's functions, in the order in which they are listed.
var worlds = []struct {
	name      string
	functions []string
}{
	{WorldPolicy, []string{"admit", "query", "connect", "push", "audience"}},
	{WorldStrategy, []string{"step"}},
	{WorldThrottle, []string{"throttle_delay", "throttle_admit", "throttle_after", "throttle_pick", "throttle_tick"}},
}

// Functions returns the names of a world's functions, as a manifest lists them;
// nil for a world that does not exist. A function's name belongs to one world.
func Functions(world string) []string {
	for _, w := range worlds {
		if w.name == world {
			return slices.Clone(w.functions)
		}
	}
	return nil
}

// Export returns the name of the export that implements a function, and whether
// there is a function of that name.
func Export(function string) (export string, ok bool) {
	for _, w := range worlds {
		if slices.Contains(w.functions, function) {
			return "talon_" + function, true
		}
	}
	return "", false
}
