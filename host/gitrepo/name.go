package gitrepo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
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

// Name is the name of a repository: an owner as npub (NIP-19) and the d tag of the
// announcement. Its zero value names none; ParseName makes others.
type Name struct {
	npub, identifier string
}

// Npub returns the owner, in lower case.
func (n Name) Npub() string { return n.npub }

// Identifier returns the d tag of the announcement.
func (n Name) Identifier() string { return n.identifier }

// String returns npub/identifier.
func (n Name) String() string { return n.npub + "/" + n.identifier }

// Path returns where a Root has the repository, below its own folder.
func (n Name) Path() string {
	file, _ := fileName(n.identifier)
	return filepath.Join(n.npub, file)
}

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

// CheckIdentifier returns an error if an identifier is not valid.
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

// IdentifierOf returns the identifier of the repository in a folder of a Root: the name of the
// folder with %XX decoded, or the text of its file talon-identifier where the name was cut. It is
// the inverse of the names that [Root.Repo] gives to folders.
func IdentifierOf(dir string) (string, error) {
	file := filepath.Base(dir)
	if identifier, ok := decodeFileName(file); ok {
		return identifier, nil
	}
	if !wasCut(file) {
		return "", fmt.Errorf("%.300q is not the name of a repository", file)
	}
	identifier, err := readIdentifier(filepath.Join(dir, cutFile))
	if err != nil {
		return "", fmt.Errorf("read the identifier of a repository: %w", err)
	}
	if back, cut := fileName(identifier); !cut || back != file || CheckIdentifier(identifier) != nil {
		return "", fmt.Errorf("the file %s holds another identifier than %.300q has: %.300q", cutFile, file, identifier)
	}
	return identifier, nil
}

// decodeFileName returns the identifier of a file name that was not cut.
func decodeFileName(file string) (string, bool) {
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

// wasCut reports whether a file name has the form of one that was cut. The cut may be inside
// of an escape.
func wasCut(file string) bool {
	name, ok := strings.CutSuffix(file, suffix)
	if !ok || len(name) <= keepCut || name[keepCut] != '~' {
		return false
	}
	sum, err := hex.DecodeString(name[keepCut+1:])
	return err == nil && len(sum) == sha256.Size
}

// readIdentifier reads the file that holds a whole identifier.
func readIdentifier(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxIdentifier {
		return "", fmt.Errorf("%s is not a file of at most %d bytes", path, MaxIdentifier)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

const (
	sharedDir = ".shared"
	trashDir  = ".trash"
	cutFile   = "talon-identifier"
)

// Root is a folder of repositories by owner and identifier. One process at a time
// may have it open, or those that are Nodes of each other.
type Root struct {
	git     *Git
	dir     string
	trash   string // what is being made or removed by this process
	locks   locks
	batches *batches

	templates templates
	said      said
	gcEpoch   atomic.Uint64 // counts how often objects may have gone
	redundant redundant
	reach     *reachedSets
	removing  gate // keeps the removal of objects and repositories apart from snapshots
}

// Scheduler returns the scheduler of the git processes of the root.
func (r *Root) Scheduler() *Scheduler { return r.git.Scheduler() }

// Open opens a folder of repositories, and makes it if it is absent. Other users of the machine
// cannot read a folder that it makes: repositories may be private. It removes what a
// crash left half made or half removed.
func Open(git *Git, dir string) (*Root, error) {
	dir, err := makeRoot(dir)
	if err != nil {
		return nil, err
	}
	return openRoot(git, dir, filepath.Join(dir, trashDir), alone{})
}

// makeRoot makes the folder of repositories if it is absent, and returns its path without links.
func makeRoot(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of repositories: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the folder of repositories: %w", err)
	}
	if strings.ContainsAny(dir, "\n") {
		return "", fmt.Errorf("the path %q has a line break, which git's alternates cannot name; use another", dir)
	}
	return dir, nil
}

func openRoot(git *Git, dir, trash string, peers peers) (*Root, error) {
	if err := empty(trash); err != nil {
		return nil, fmt.Errorf("empty %s: %w", trash, err)
	}
	if err := distinguishesCase(trash); err != nil {
		return nil, err
	}
	return &Root{
		git: git, dir: dir, trash: trash, batches: new(batches), reach: newReachedSets(),
		locks: locks{peers: peers},
	}, nil
}

// empty makes a folder, or removes all that is in it. A git that outlived a crash may still be
// writing there, until it misses what has gone.
func empty(dir string) error {
	const tries, pause = 200, 10 * time.Millisecond
	for try := 1; ; try++ {
		err := os.RemoveAll(dir)
		if err == nil {
			err = os.Mkdir(dir, 0o755)
		}
		// ErrExist is also that a folder is not empty.
		if !errors.Is(err, fs.ErrExist) || try == tries {
			return err
		}
		time.Sleep(pause)
	}
}

// distinguishesCase makes sure that Name and name are two repositories.
func distinguishesCase(dir string) error {
	probe := filepath.Join(dir, "case")
	if err := os.WriteFile(probe, nil, 0o644); err != nil {
		return fmt.Errorf("write to the folder of repositories: %w", err)
	}
	defer func() { _ = os.Remove(probe) }()
	if _, err := os.Lstat(filepath.Join(dir, "CASE")); err == nil {
		return fmt.Errorf("the file system of %s takes upper and lower case for the same; use another", dir)
	}
	return nil
}

// Close ends the git processes for look-ups.
func (r *Root) Close() { r.batches.close() }

// Repo returns a repository, whether it exists or not.
func (r *Root) Repo(name Name) *Repo {
	file, _ := fileName(name.identifier)
	return r.at(name, file)
}

func (r *Root) at(name Name, file string) *Repo {
	return &Repo{
		git: r.git, dir: filepath.Join(r.dir, name.npub, file), locks: &r.locks, batches: r.batches, root: r, name: name,
	}
}

// LockAll acquires the locks of several repositories, in an order that all callers share.
// REQUIRES: the caller holds no lock of a repository.
func (r *Root) LockAll(ctx context.Context, repos ...*Repo) (unlock func(), err error) {
	dirs := make([]string, 0, len(repos))
	for _, repo := range repos {
		dirs = append(dirs, repo.dir)
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	var held []func()
	unlock = func() {
		for _, f := range slices.Backward(held) {
			f()
		}
	}
	for _, dir := range dirs {
		f, err := r.locks.lock(ctx, dir)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, f)
	}
	return unlock, nil
}

// List calls yield with the name of every repository, until it returns false.
func (r *Root) List(yield func(Name) bool) error {
	owners, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("list the repositories: %w", err)
	}
	for _, owner := range owners {
		if !owner.IsDir() || !strings.HasPrefix(owner.Name(), "npub1") {
			continue
		}
		files, err := os.ReadDir(filepath.Join(r.dir, owner.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went with its last repository
		}
		if err != nil {
			return fmt.Errorf("list the repositories: %w", err)
		}
		for _, file := range files {
			if !file.IsDir() {
				continue
			}
			if name, ok := r.nameOf(owner.Name(), file.Name()); ok && !yield(name) {
				return nil
			}
		}
	}
	return nil
}

// nameOf returns the name of a repository that is in the root.
func (r *Root) nameOf(npub, file string) (Name, bool) {
	identifier, err := IdentifierOf(filepath.Join(r.dir, npub, file))
	if err != nil {
		return Name{}, false
	}
	name, err := ParseName(npub, identifier)
	return name, err == nil
}

// RemoveLost removes files that dead nodes have left in the trash of the root: the quarantines
// of their pushes and fetches. A git of theirs that still works there fails. Folders that
// changed in the last minutes stay: a node may have come since.
func (r *Root) RemoveLost(alive func(node string) bool) error {
	return r.locks.peers.removeLost(alive)
}
