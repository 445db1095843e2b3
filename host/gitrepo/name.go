package gitrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"talon/sdk/nip19"
)

// MaxIdentifier is the longest identifier, in bytes.
const MaxIdentifier = 2 << 10

const (
	maxFile = 200 // of a file name, without .git
	keepCut = 100 // of the name that a hash follows
	suffix  = ".git"
)

// Name names a repository: an owner as npub (NIP-19) and the d tag of the
// announcement. Its zero value names none; ParseName makes others.
type Name struct {
	npub, identifier string
}

// Npub is the owner, in lower case.
func (n Name) Npub() string { return n.npub }

// Identifier is the d tag of the announcement.
func (n Name) Identifier() string { return n.identifier }

// String returns npub/identifier.
func (n Name) String() string { return n.npub + "/" + n.identifier }

// ParseName checks an owner and an identifier, which must be percent-decoded.
func ParseName(npub, identifier string) (Name, error) {
	// Upper case decodes as well, and would be a second path to the same thing.
	if npub != strings.ToLower(npub) {
		return Name{}, errors.New("the npub is not in lower case")
	}
	if _, err := nip19.DecodeNpub(npub); err != nil {
		return Name{}, err
	}
	if err := CheckIdentifier(identifier); err != nil {
		return Name{}, err
	}
	return Name{npub: npub, identifier: identifier}, nil
}

// ParsePath parses the path of a repository, <npub>/<identifier>.git (GRASP-01),
// given as its percent-decoded parts.
func ParsePath(parts []string) (Name, error) {
	if len(parts) != 2 {
		return Name{}, errors.New("the path of a repository is <npub>/<identifier>.git")
	}
	identifier, ok := strings.CutSuffix(parts[1], suffix)
	if !ok {
		return Name{}, errors.New("the path of a repository ends in .git")
	}
	return ParseName(parts[0], identifier)
}

// CheckIdentifier says what is wrong with an identifier, if anything.
func CheckIdentifier(s string) error {
	switch {
	case s == "":
		return errors.New("the identifier is empty")
	case len(s) > MaxIdentifier:
		return fmt.Errorf("the identifier has %d bytes, more than %d", len(s), MaxIdentifier)
	case s == "." || s == "..":
		return errors.New("the identifier . or .. is not allowed")
	case !utf8.ValidString(s):
		return errors.New("the identifier is not UTF-8")
	case strings.ContainsAny(s, `/\`):
		return errors.New("the identifier has a slash or backslash")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("the identifier has a control character")
	}
	return nil
}

// fileName returns the name of the identifier's file, and whether it was cut: then
// the identifier cannot be had back from it.
func fileName(identifier string) (name string, cut bool) {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(identifier); i++ {
		c := identifier[i]
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' ||
			i > 0 && (c == '.' || c == '-')
		if plain {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	name = b.String()
	if len(name) <= maxFile {
		return name + suffix, false
	}
	sum := sha256.Sum256([]byte(identifier))
	return name[:keepCut] + "~" + hex.EncodeToString(sum[:]) + suffix, true
}

// identifierOf returns the identifier of a file name that was not cut.
func identifierOf(file string) (string, bool) {
	name, ok := strings.CutSuffix(file, suffix)
	if !ok {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		var c [1]byte
		if _, err := hex.Decode(c[:], []byte(name[i+1:i+3])); err != nil {
			return "", false
		}
		b.WriteByte(c[0])
		i += 2
	}
	identifier := b.String()
	if back, cut := fileName(identifier); cut || back != file || CheckIdentifier(identifier) != nil {
		return "", false
	}
	return identifier, true
}
