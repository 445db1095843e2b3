package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

func required(s string) error {
	if s == "" {
		return errors.New("something, not nothing")
	}
	return nil
}

// branch checks the name of a branch, without refs/heads/.
func branch(s string) error {
	if s == "HEAD" || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "refs/") || grasp.CheckRef("refs/heads/"+s) != nil {
		return errors.New("the name of a branch, such as main")
	}
	return nil
}

// parsed is a string that parse may write in another way. Its error says what is allowed.
func parsed(p *string, parse func(string) (string, error)) value {
	return value{
		set: func(s string) error {
			s, err := parse(s)
			if err == nil {
				*p = s
			}
			return err
		},
		get: func() string { return *p }, kind: "string",
	}
}

func text(p *string, check func(string) error) value {
	return parsed(p, func(s string) (string, error) {
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
			return "", errors.New("text without control characters")
		}
		if check != nil {
			return s, check(s)
		}
		return s, nil
	})
}

func enum(p *string, allowed ...string) value {
	return text(p, func(s string) error {
		if slices.Contains(allowed, s) {
			return nil
		}
		return errors.New(strings.Join(allowed, " or "))
	})
}

func boolean(p *bool) value {
	return value{
		set: func(s string) error {
			b, err := strconv.ParseBool(s)
			if err != nil {
				return errors.New("true or false")
			}
			*p = b
			return nil
		},
		get: func() string { return strconv.FormatBool(*p) }, kind: "bool",
	}
}

// list is values with commas between them. parse reads one behind those that were read before.
func list[T any](p *[]T, kind string, parse func(before []T, item string) (T, error), format func(T) string) value {
	return value{
		set: func(s string) error {
			var list []T
			for item := range strings.SplitSeq(s, ",") {
				if item = strings.TrimSpace(item); item == "" {
					continue
				}
				v, err := parse(list, item)
				if err != nil {
					return err
				}
				list = append(list, v)
			}
			*p = list
			return nil
		},
		get: func() string {
			var items []string
			for _, v := range *p {
				items = append(items, format(v))
			}
			return strings.Join(items, ",")
		},
		kind: kind,
	}
}

// webURL reports an error unless a text is empty, or the URL of a page.
func webURL(s string) error {
	if u, err := url.Parse(s); s != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		return errors.New("a URL that begins with https:// or http://")
	}
	return nil
}

func itself(s string) string { return s }

// relays is a list of relay URLs.
func relays(p *[]string) value {
	return list(p, "string", func(_ []string, item string) (string, error) {
		u, err := url.Parse(item)
		if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
			return "", errors.New("URLs that begin with ws:// or wss://, with commas between them")
		}
		return item, nil
	}, itself)
}

// names is a list of names of plugins, each once.
func names(p *[]string) value {
	return list(p, "string", func(before []string, item string) (string, error) {
		if !pluginName.MatchString(item) || slices.Contains(before, item) {
			return "", errors.New("names of plugins, such as rate,lists,grasp, each once")
		}
		return item, nil
	}, itself)
}

var pluginName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// prefix is the first part of the names of metrics.
func prefix(p *string) value {
	return text(p, func(s string) error {
		for i, c := range s {
			if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') || i >= 32 {
				return errors.New("at most 32 of a-z, 0-9 and _, a letter first")
			}
		}
		if s == "" {
			return errors.New("a name")
		}
		return nil
	})
}

func integer[T int | int64](p *T, low, limit int64) value {
	return value{
		set: func(s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || n < low || n > limit {
				return fmt.Errorf("a whole number from %d to %d", low, limit)
			}
			*p = T(n)
			return nil
		},
		get: func() string { return strconv.FormatInt(int64(*p), 10) }, kind: "number",
	}
}

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

func size(p *int64, low, limit int64) value {
	wrong := fmt.Errorf("a number of bytes from %s to %s, such as 512KiB or 2MB", formatSize(low), formatSize(limit))
	return value{
		set: func(s string) error {
			for _, unit := range units {
				digits, ok := strings.CutSuffix(s, unit.suffix)
				if !ok {
					continue
				}
				n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
				if err != nil || n < 0 || n > limit/unit.bytes || n*unit.bytes < low {
					return wrong
				}
				*p = n * unit.bytes
				return nil
			}
			return wrong
		},
		get: func() string { return formatSize(*p) }, kind: "bytes",
	}
}

// orZero lets a size be 0 too, for a default that is not known in advance.
func orZero(p *int64, v value) value {
	set := v.set
	v.set = func(s string) error {
		if s == "0" {
			*p = 0
			return nil
		}
		if err := set(s); err != nil {
			return fmt.Errorf("0 or %w", err)
		}
		return nil
	}
	return v
}

func formatSize(n int64) string {
	for i := 2; i >= 0; i-- {
		if unit := units[i]; n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

func duration(p *time.Duration, low, limit time.Duration) value {
	return value{
		set: func(s string) error {
			d, err := time.ParseDuration(s)
			if err != nil || d < low || d > limit {
				return fmt.Errorf("a time from %v to %v, such as 500ms, 30s or 2m", low, limit)
			}
			*p = d
			return nil
		},
		get: func() string { return p.String() }, kind: "duration",
	}
}

func address(p *string) value {
	return text(p, func(s string) error {
		if s == "" {
			return nil
		}
		_, port, err := net.SplitHostPort(s)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return errors.New("host:port, such as 127.0.0.1:7334 or [::]:7334")
		}
		return nil
	})
}

var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// domains is a list of names of the relay.
func domains(p *[]string) value {
	wrong := errors.New("host or host:port without scheme or path, such as relay.example.com")
	return list(p, "string", func(_ []string, s string) (string, error) {
		s = strings.ToLower(s)
		name := s
		if h, port, err := net.SplitHostPort(s); err == nil {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return "", wrong
			}
			name = h
		}
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err != nil && !hostName.MatchString(name) {
			return "", wrong
		}
		return s, nil
	}, itself)
}

func pubkey(p *string) value {
	return parsed(p, func(s string) (string, error) {
		if s == "" {
			return "", nil
		}
		key, err := nip19.ParsePubKey(s)
		if err != nil {
			return "", errors.New("an npub or 64 lower-case hex characters")
		}
		return hex.EncodeToString(key[:]), nil
	})
}

// pubkeys is a list of public keys.
func pubkeys(p *[][32]byte) value {
	return list(p, "string", func(_ [][32]byte, item string) ([32]byte, error) {
		key, err := nip19.ParsePubKey(item)
		if err != nil {
			return key, errors.New("npubs, or keys of 64 lower-case hex characters, with commas between them")
		}
		return key, nil
	}, func(key [32]byte) string { return nip19.EncodeNpub(key) })
}

// signers is a list of public keys that is not empty if it is given.
func signers(p *[][32]byte) value {
	v := pubkeys(p)
	set := v.set
	v.set = func(s string) error {
		if err := set(s); err != nil {
			return err
		}
		if len(*p) == 0 && s != "" {
			return errors.New("at least one key, or nothing for any module")
		}
		return nil
	}
	return v
}

func prefixes(p *[]netip.Prefix) value {
	return list(p, "networks", func(_ []netip.Prefix, item string) (netip.Prefix, error) {
		prefix, err := netip.ParsePrefix(item)
		if err != nil {
			addr, err := netip.ParseAddr(item)
			if err != nil {
				return prefix, errors.New("addresses or networks with commas between them, such as 127.0.0.1,10.0.0.0/8")
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		return prefix.Masked(), nil
	}, netip.Prefix.String)
}

// minFree is a size, a part of the disk, or both with a comma between them.
func minFree(bytes *int64, percent *float64) value {
	wrong := errors.New("a size and a percentage of at most 90, such as 1GiB or 1GiB,5%")
	return value{
		set: func(s string) error {
			var n int64
			var part float64
			for text := range strings.SplitSeq(s, ",") {
				text = strings.TrimSpace(text)
				if digits, is := strings.CutSuffix(text, "%"); is {
					var err error
					if part, err = strconv.ParseFloat(digits, 64); err != nil || !(part >= 0 && part <= 90) {
						return wrong
					}
					continue
				}
				if orZero(&n, size(&n, 1, 1<<50)).set(text) != nil {
					return wrong
				}
			}
			*bytes, *percent = n, part
			return nil
		},
		get: func() string {
			text := formatSize(*bytes)
			if *percent > 0 {
				text += "," + strconv.FormatFloat(*percent, 'f', -1, 64) + "%"
			}
			return text
		},
		kind: "space",
	}
}
