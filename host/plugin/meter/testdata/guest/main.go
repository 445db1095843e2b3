// A guest whose exports each press on another part of the code that the Go
// compiler makes: arithmetic, byte loops, maps, calls through interfaces,
// allocation and garbage collection, bulk memory, panics.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sort"
	"strings"
)

var input = bytes.Repeat([]byte(`{"kind":1,"tags":[["e","5c83da77af1dec6d"],["p","f7234bd4"]],"content":"a \"quoted\" text\n"},`), 64)

// digest hashes the input n times.
//
//go:wasmexport digest
func digest(n int32) int64 {
	sum := sha256.Sum256(input)
	for range n - 1 {
		sum = sha256.Sum256(append(sum[:], input...))
	}
	return int64(binary.LittleEndian.Uint64(sum[:]))
}

// scan walks over the input like a JSON tokenizer, n times.
//
//go:wasmexport scan
func scan(n int32) int64 {
	var strings, depth, deepest, numbers int64
	for range n {
		quoted := false
		for i := 0; i < len(input); i++ {
			c := input[i]
			if quoted {
				switch c {
				case '\\':
					i++
				case '"':
					quoted = false
				}
				continue
			}
			switch {
			case c == '"':
				quoted = true
				strings++
			case c == '{' || c == '[':
				depth++
				deepest = max(deepest, depth)
			case c == '}' || c == ']':
				depth--
			case c >= '0' && c <= '9':
				numbers++
			}
		}
	}
	return strings<<32 | numbers<<16 | deepest<<8 | depth
}

// count looks at each byte of the input, n times.
//
//go:wasmexport count
func count(n int32) (quotes int64) {
	for range n {
		for _, c := range input {
			if c == '"' {
				quotes++
			}
		}
	}
	return quotes
}

// sum adds numbers in a loop that does nothing else.
//
//go:wasmexport sum
func sum(n int32) int64 {
	s := uint32(1)
	for i := range uint32(n) * 1000 {
		s = s*31 + i
	}
	return int64(s)
}

type shape interface{ area() int64 }
type square struct{ a int64 }
type rectangle struct{ a, b int64 }

func (s square) area() int64    { return s.a * s.a }
func (r rectangle) area() int64 { return r.a * r.b }

// mix allocates, sorts, formats and calls through interfaces and maps.
//
//go:wasmexport mix
func mix(n int32) int64 {
	counts := map[string]int64{}
	var shapes []shape
	for i := range int64(n) * 100 {
		if i%3 == 0 {
			shapes = append(shapes, square{i})
		} else {
			shapes = append(shapes, rectangle{i, 3})
		}
		counts[fmt.Sprintf("k%d", i%17)] += i
	}
	sort.Slice(shapes, func(i, j int) bool { return shapes[i].area() < shapes[j].area() })
	var out strings.Builder
	for _, s := range shapes {
		fmt.Fprintf(&out, "%d,", s.area())
	}
	sum := int64(len(out.String()))
	for _, v := range counts {
		sum += v
	}
	return sum
}

// recovered panics n times and recovers.
//
//go:wasmexport recovered
func recovered(n int32) (caught int64) {
	for i := range n {
		func() {
			defer func() {
				if recover() != nil {
					caught++
				}
			}()
			_ = input[int(i)-n32]
		}()
	}
	return caught
}

const n32 = 1 << 30

func main() {}
