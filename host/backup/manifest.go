package backup

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	manifestFile = "manifest.json"

	// format is the version of the layout. A program reads no other.
	format = 1

	// blockSize is the length of all blocks of a file but the last.
	blockSize = 64 << 10
)

// Manifest says what a backup has.
type Manifest struct {
	Format   int       `json:"format"`
	ID       string    `json:"id"`       // 32 hex digits, different for each backup
	Made     time.Time `json:"made"`     // the moment of which it has the data
	Release  string    `json:"release"`  // of the program that made it
	Database string    `json:"database"` // sqlite, or postgresql, which is not in the backup
	Files    []File    `json:"files"`
}

// Engines of the database.
const (
	SQLite     = "sqlite"
	PostgreSQL = "postgresql"
)

// File is a file or an empty folder of the data. A pack has a hash, another file has blocks.
type File struct {
	Path   string      `json:"path"` // relative, with slashes
	Mode   fs.FileMode `json:"mode"`
	Size   int64       `json:"size"`
	Blocks []hash      `json:"blocks,omitempty"`
	Pack   *hash       `json:"pack,omitempty"`
}

// hash is a SHA-256. Its text is hex.
type hash [32]byte

func (h hash) String() string               { return hex.EncodeToString(h[:]) }
func (h hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

func (h *hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return errors.New("want 64 hex digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Bytes is the size of all files.
func (m *Manifest) Bytes() (sum int64) {
	for _, f := range m.Files {
		sum += f.Size
	}
	return sum
}

// ErrNone says that a folder holds no backup.
var ErrNone = errors.New("there is no backup")

// Read reads the manifest of a backup.
func Read(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: it has no %s", ErrNone, dir, manifestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read the backup %s: %w", path, err)
	}
	if m.Format != format {
		return nil, fmt.Errorf("the backup %s has format %d, this program reads format %d: use the release that made it (%.40q)", path, m.Format, format, m.Release)
	}
	for _, f := range m.Files {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("read the backup %s: %w", path, err)
		}
	}
	return m, nil
}

// check refuses what would lead out of the folder, or has no content.
func (f *File) check() error {
	if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
		return fmt.Errorf("the path %.200q leads out of the folder", f.Path)
	}
	blocks := (f.Size + blockSize - 1) / blockSize
	switch {
	case f.Mode&^(fs.ModeDir|fs.ModePerm) != 0, f.Size < 0, f.Mode.IsDir() && (f.Pack != nil || f.Size != 0):
		return fmt.Errorf("the entry of %.200q is damaged", f.Path)
	case f.Pack == nil && int64(len(f.Blocks)) != blocks:
		return fmt.Errorf("the entry of %.200q has %d blocks, want %d", f.Path, len(f.Blocks), blocks)
	}
	return nil
}

func (m *Manifest) text() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
