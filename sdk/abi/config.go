package abi

import (
	"math"
	"unicode/utf8"
)

// Setting is the message Setting.
type Setting struct {
	Key     string
	Strings []string
	Ints    []int64
	Bools   []bool
	Floats  []float64
}

// Service is the message Service.
type Service struct {
	Domain   string
	PRs      bool
	Operator [32]byte // public key; zeros: none is named
}

// Config is the message Config.
type Config struct {
	Settings []Setting
	Service  Service
}

// AppendConfig appends c.
func AppendConfig(b []byte, c *Config) []byte {
	var one []byte
	for i := range c.Settings {
		one = appendSetting(one[:0], &c.Settings[i])
		b = appendField(b, 1, one)
	}
	one = appendBool(appendNonEmpty(one[:0], 1, c.Service.Domain), 2, c.Service.PRs)
	if c.Service.Operator != ([32]byte{}) {
		one = appendField(one, 3, c.Service.Operator[:])
	}
	return appendNonEmpty(b, 2, one)
}

func appendSetting(b []byte, s *Setting) []byte {
	b = appendNonEmpty(b, 1, s.Key)
	for _, v := range s.Strings {
		b = appendField(b, 2, v)
	}
	var packed []byte
	for _, v := range s.Ints {
		packed = appendVarint(packed, uint64(v))
	}
	b = appendNonEmpty(b, 3, packed)
	packed = packed[:0]
	for _, v := range s.Bools {
		bit := byte(0)
		if v {
			bit = 1
		}
		packed = append(packed, bit)
	}
	b = appendNonEmpty(b, 4, packed)
	packed = packed[:0]
	for _, v := range s.Floats {
		for n, i := math.Float64bits(v), 0; i < 8; i++ {
			packed = append(packed, byte(n>>(8*i)))
		}
	}
	return appendNonEmpty(b, 5, packed)
}

// DecodeConfig reads a Config. The strings are copies.
func DecodeConfig(b []byte) (Config, error) {
	var c Config
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.is(1, wireBytes):
			s, err := decodeSetting(r.data)
			if err != nil {
				return Config{}, err
			}
			c.Settings = append(c.Settings, s)
		case r.is(2, wireBytes):
			if err := c.Service.decode(r.data); err != nil {
				return Config{}, err
			}
		}
	}
	if r.bad {
		return Config{}, ErrMalformed
	}
	return c, nil
}

func (s *Service) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.is(1, wireBytes):
			if !utf8.Valid(r.data) {
				return ErrMalformed
			}
			s.Domain = string(r.data)
		case r.is(2, wireVarint):
			s.PRs = r.num != 0
		case r.is(3, wireBytes):
			if s.Operator = [32]byte{}; len(r.data) == len(s.Operator) {
				s.Operator = [32]byte(r.data)
			}
		}
	}
	return r.err()
}

func decodeSetting(b []byte) (Setting, error) {
	var s Setting
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.is(1, wireBytes):
			if !utf8.Valid(r.data) {
				return s, ErrMalformed
			}
			s.Key = string(r.data)
		case r.is(2, wireBytes):
			if !utf8.Valid(r.data) {
				return s, ErrMalformed
			}
			s.Strings = append(s.Strings, string(r.data))
		case r.is(3, wireVarint):
			s.Ints = append(s.Ints, int64(r.num))
		case r.is(3, wireBytes):
			if !eachVarint(r.data, func(v uint64) { s.Ints = append(s.Ints, int64(v)) }) {
				return s, ErrMalformed
			}
		case r.is(4, wireVarint):
			s.Bools = append(s.Bools, r.num != 0)
		case r.is(4, wireBytes):
			if !eachVarint(r.data, func(v uint64) { s.Bools = append(s.Bools, v != 0) }) {
				return s, ErrMalformed
			}
		case r.is(5, wireFixed64):
			s.Floats = append(s.Floats, math.Float64frombits(r.num))
		case r.is(5, wireBytes):
			if len(r.data)%8 != 0 {
				return s, ErrMalformed
			}
			for p := (reader{rest: r.data}); len(p.rest) > 0; {
				p.fixed(8)
				s.Floats = append(s.Floats, math.Float64frombits(p.num))
			}
		}
	}
	return s, r.err()
}

// eachVarint calls f for each varint of a packed field.
func eachVarint(b []byte, f func(uint64)) bool {
	for len(b) > 0 {
		v, n := readVarint(b)
		if n == 0 {
			return false
		}
		f(v)
		b = b[n:]
	}
	return true
}
