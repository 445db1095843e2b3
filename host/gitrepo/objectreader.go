package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrNoObject says that a repository does not have an object.
var ErrNoObject = errors.New("no such object")

// ErrTooLarge says that an object, or the output of git, is larger than the reader takes.
var ErrTooLarge = errors.New("too large")

// ObjectReader reads objects of one repository by their ids, with a git that runs already. It is
// for one goroutine. Its user closes it.
type ObjectReader struct {
	batch *batch
	repo  *Repo
	ctx   context.Context // of its user
	stop  func() bool
	spent bool // the process has ended, or its answers are out of step
}

// ObjectReader returns a reader of the repository's objects. The end of ctx ends it.
func (r *Repo) ObjectReader(ctx context.Context) (*ObjectReader, error) {
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	b, err := r.batches.acquire(ctx, r, contents)
	if err != nil {
		return nil, fmt.Errorf("open a reader of objects: %w", r.orGone(err))
	}
	return &ObjectReader{batch: b, repo: r, ctx: ctx, stop: context.AfterFunc(ctx, b.cancel)}, nil
}

// Close gives the process back.
func (o *ObjectReader) Close() {
	if o.batch == nil {
		return
	}
	if ending := !o.stop(); o.spent || ending {
		_ = o.batch.close()
	} else {
		o.repo.batches.release(o.batch)
	}
	o.batch = nil
}

// Info returns the kind (blob, tree, commit or tag) and the size of an object.
func (o *ObjectReader) Info(id string) (kind string, size int64, err error) {
	if err := checkID(id); err != nil {
		return "", 0, err
	}
	_, kind, size, err = o.ask("info ", id)
	return kind, size, err
}

// Object returns an object. It fails with ErrTooLarge, and with the kind and without the content,
// if the object has more than limit bytes.
func (o *ObjectReader) Object(id string, limit int64) (kind string, content []byte, err error) {
	if err := checkID(id); err != nil {
		return "", nil, err
	}
	_, kind, content, err = o.contents(id, limit)
	return kind, content, err
}

// ObjectAt is Object for what a tree has at a path of names with slashes between them. It also returns
// the id of that.
func (o *ObjectReader) ObjectAt(tree, path string, limit int64) (id, kind string, content []byte, err error) {
	if err := checkID(tree); err != nil {
		return "", "", nil, err
	}
	if !isPlainPath(path) {
		return "", "", nil, fmt.Errorf("read the object at %.200q: %w", path, ErrPath)
	}
	return o.contents(tree+":"+path, limit)
}

// InfoAt is Info for what a tree has at a path of names with slashes between them. It also returns the
// id of that.
func (o *ObjectReader) InfoAt(tree, path string) (id, kind string, err error) {
	if err := checkID(tree); err != nil {
		return "", "", err
	}
	if !isPlainPath(path) {
		return "", "", fmt.Errorf("read the object at %.200q: %w", path, ErrPath)
	}
	id, kind, _, err = o.ask("info ", tree+":"+path)
	return id, kind, err
}

// ErrPath says that git cannot be asked for the object at a path by one line.
var ErrPath = errors.New("a path that a line cannot have")

// isPlainPath reports whether git takes a path behind a colon as it is.
func isPlainPath(path string) bool {
	return path != "" && !strings.ContainsAny(path, "\n\x00") && !strings.HasPrefix(path, "./") && !strings.HasPrefix(path, "../")
}

func checkID(id string) error {
	if !IsID(id) {
		return fmt.Errorf("read the object %.100q: %w", id, ErrNoObject)
	}
	return nil
}

// contents asks for an object by its id, or by that of a tree and a path.
func (o *ObjectReader) contents(name string, limit int64) (id, kind string, content []byte, err error) {
	id, kind, size, err := o.ask("contents ", name)
	if err != nil {
		return id, kind, nil, err
	}
	if size > limit {
		o.spent = true // git goes on to write it
		return id, kind, nil, fmt.Errorf("read the object %s of %d bytes: %w", id, size, ErrTooLarge)
	}
	content = make([]byte, size+1) // and the line break behind it
	if _, err := io.ReadFull(o.batch.out, content); err != nil {
		return id, kind, nil, o.failed(err)
	}
	return id, kind, content[:size], nil
}

// ask writes a question and reads the first line of its answer, which begins with the id of the object.
func (o *ObjectReader) ask(command, name string) (id, kind string, size int64, err error) {
	if o.spent {
		if err := o.reopen(); err != nil {
			return "", "", 0, err
		}
	}
	line, err := o.exchange(command, name)
	if err != nil && o.ctx.Err() == nil && o.repo.mustExist() == nil {
		// The process was kept and may have ended since.
		if err = o.reopen(); err == nil {
			line, err = o.exchange(command, name)
		}
	}
	if err != nil {
		return "", "", 0, o.failed(err)
	}
	fields := strings.Fields(line)
	if len(fields) == 3 && IsID(fields[0]) && (fields[0] == name || len(name) > len(fields[0])) {
		if size, err = strconv.ParseInt(fields[2], 10, 64); err == nil {
			return fields[0], fields[1], size, nil
		}
	}
	if strings.HasSuffix(line, " missing\n") {
		return "", "", 0, fmt.Errorf("read the object %.200q: %w", name, ErrNoObject)
	}
	o.spent = true
	return "", "", 0, fmt.Errorf("read the object %.200q: git says %.100q", name, line)
}

func (o *ObjectReader) exchange(command, id string) (line string, err error) {
	if _, err := io.WriteString(o.batch.p.In, command+id+"\n"); err != nil {
		o.spent = true
		return "", err
	}
	if line, err = o.batch.out.ReadString('\n'); err != nil {
		o.spent = true
	}
	return line, err
}

// reopen starts another process in the place of one that is spent.
func (o *ObjectReader) reopen() error {
	if err := context.Cause(o.ctx); err != nil {
		return err
	}
	o.stop()
	_ = o.batch.close()
	b, err := openBatch(o.repo, contents)
	if err != nil {
		return fmt.Errorf("open a reader of objects: %w", o.repo.orGone(err))
	}
	o.batch, o.spent, o.stop = b, false, context.AfterFunc(o.ctx, b.cancel)
	return nil
}

// failed returns why the process failed.
func (o *ObjectReader) failed(err error) error {
	o.spent = true
	if cause := context.Cause(o.ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("read an object: %w", o.repo.orGone(err))
}

// Sizes returns the sizes of blobs, -1 for one that is missing or no blob. It asks for all at
// once.
func (o *ObjectReader) Sizes(ids []string) ([]int64, error) {
	sizes := make([]int64, len(ids))
	if len(ids) == 0 {
		return sizes, nil
	}
	// The first question also replaces a process that has ended.
	if kind, size, err := o.Info(ids[0]); err == nil {
		sizes[0] = sizeOfBlob(kind, size)
	} else if sizes[0] = -1; !errors.Is(err, ErrNoObject) {
		return nil, err
	}
	var questions strings.Builder
	for _, id := range ids[1:] {
		if !IsID(id) {
			return nil, fmt.Errorf("read the size of %.100q: %w", id, ErrNoObject)
		}
		questions.WriteString("info " + id + "\n")
	}
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(o.batch.p.In, questions.String())
		written <- err
	}()
	for i := range ids[1:] {
		line, err := o.batch.out.ReadString('\n')
		if err != nil {
			o.batch.cancel()
			<-written
			return nil, o.failed(err)
		}
		sizes[i+1] = -1
		if fields := strings.Fields(line); len(fields) == 3 {
			size, _ := strconv.ParseInt(fields[2], 10, 64)
			sizes[i+1] = sizeOfBlob(fields[1], size)
		}
	}
	if err := <-written; err != nil {
		return nil, o.failed(err)
	}
	return sizes, nil
}

func sizeOfBlob(kind string, size int64) int64 {
	if kind != "blob" {
		return -1
	}
	return size
}
