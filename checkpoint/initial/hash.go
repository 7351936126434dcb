package initial

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// Hash is SHA-256, in hex, over what variables get from the [Source] init as their first contents. Where its
// file is, how it is written, and what else is in it do not count.
func Hash(ctx context.Context, init string, vars []*graph.Value) (sum string, err error) {
	x, err := Open(ctx, init, 0, vars)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	sums := map[string][sha256.Size]byte{}
	take := func(name string, contents []byte) { sums[name] = sha256.Sum256(contents) }
	if x.stream != nil {
		err = x.stream.each(ctx, take)
	} else {
		err = x.each(ctx, vars, take)
	}
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s := sums[name]
		h.Write([]byte(name + "\x00"))
		h.Write(s[:])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// each reads the variables in a plain file.
func (x *Values) each(ctx context.Context, vars []*graph.Value, take func(name string, contents []byte)) error {
	for _, v := range vars {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, given := x.lookup(v.Name); !given || !weight(v) {
			continue
		}
		contents := make([]byte, v.Meta.Bytes())
		if err := x.Read(v, contents); err != nil {
			return err
		}
		take(v.Name, contents)
	}
	return nil
}

// each reads the variables in a compressed file, in its order.
func (s *Stream) each(ctx context.Context, take func(name string, contents []byte)) error {
	for {
		name, bytes, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		contents := make([]byte, bytes)
		if err := s.Read(contents); err != nil {
			return err
		}
		take(name, contents)
	}
}
