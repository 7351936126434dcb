package checkpoint

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
	"go.etcd.io/bbolt"
)

// Every single byte of every record matters.
func TestDamagedRecords(t *testing.T) {
	b := victim(t)
	im, err := openImage(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range [][2][]byte{{bucketBerth, keyFormat}, {bucketBerth, keyHead}, {bucketManifests, idKey(5)}, {bucketTensors, idKey(5)}} {
		it, ok, err := im.lookup(path[0], path[1])
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		for i := it.at; i < it.at+it.size; i++ {
			b[i] ^= 1 << (i % 8)
			if _, err := im.record(path[0], path[1]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("record %s/%x with byte %d changed: %v", path[0], path[1], i-it.at, err)
			}
			b[i] ^= 1 << (i % 8)
		}
	}
}

// A head that names ids in disorder is damaged, and however many it names, the
// list is soon there.
func TestManyIDs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	many := testall.Or(100_000, 1_000_000)
	ids := make([]uint64, many)
	for i := range ids {
		ids[i] = uint64(i) + 1
	}
	err := db.update(func(tx *bbolt.Tx) error {
		for id := range uint64(20_000) {
			if err := tx.Bucket(bucketManifests).Put(idKey(2*id+2), []byte("x")); err != nil {
				return err
			}
		}
		return putHead(tx, head{uint64(many) + 1, ids})
	})
	if err != nil {
		t.Fatal(err)
	}
	ms, skipped, err := db.List()
	if err != nil || len(ms) != 1 || len(skipped) != many-1 {
		t.Fatal(len(ms), len(skipped), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := db.Latest(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := decodeHead([]byte(`{"next":3,"ids":[2,1]}`)); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

var update = flag.Bool("update", false, "write the golden files")

// A file of format 1, as first released, must be read for ever.
func TestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "format1.db.gz")
	if *update {
		writeGolden(t, golden)
	}
	f, err := os.Open(golden)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.db")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, o := range []OpenOptions{{ReadOnly: true}, {}} {
		db := open(t, path, o)
		for _, id := range []uint64{2, 4, 5} {
			s, err := db.Load(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := same(s, int(id)); err != nil {
				t.Fatal(err)
			}
		}
		goldenRecords(t, db.im)
		db.Close()
	}
}

// goldenRecords compares the records' text with what the format's
// description promises.
func goldenRecords(t *testing.T, im *image) {
	var got strings.Builder
	for _, r := range [][2][]byte{{bucketBerth, keyFormat}, {bucketBerth, keyHead}, {bucketManifests, idKey(2)}, {bucketTensors, idKey(2)}} {
		payload, err := im.record(r[0], r[1])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s/%q\n%s\n", r[0], r[1], payload)
	}
	name := filepath.Join("testdata", "format1.txt")
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("records are\n%s, want\n%s", got.String(), want)
	}
}

func writeGolden(t *testing.T, name string) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(victim(t)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	err := db.update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketBerth).Put(keyFormat, seal(bucketBerth, keyFormat, []byte(`{"format":3}`)))
	})
	if !errors.Is(err, ErrFormat) { // update looks at the file after the change
		t.Fatal(err)
	}
	db.Close()
	for _, o := range []OpenOptions{{}, {ReadOnly: true}} {
		_, err := Open(path, o)
		if !errors.Is(err, ErrFormat) || !containsAll(err.Error(), "format 3", "reads 1 to 2") {
			t.Errorf("format 3: %v", err)
		}
	}
}
