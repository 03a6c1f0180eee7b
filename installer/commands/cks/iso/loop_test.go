// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
	installerenv "github.com/csccm/csccm/installer/testenv"
)

// record is the directory record of a file or folder inside an image: 33 bytes before its name.
type record []byte

// records returns all records of a name.
func records(image []byte, name string) (all []record) {
	for at := 0; ; at++ {
		n := bytes.Index(image[at:], []byte(name))
		if n < 0 {
			return all
		}
		at += n
		if start := at - 33; start >= 0 && int(image[start+32]) == len(name) {
			all = append(all, image[start:at])
		}
	}
}

// leads makes a record point to the content of another record.
func (r record) leads(to record) { copy(r[2:18], to[2:18]) }

// A damaged or hostile image ends the command with an error before anything is copied.
func TestImagesWithoutAnEnd(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("x"), 64<<10)

	for name, tc := range map[string]struct {
		change func(t *testing.T, image []byte)
		says   string
	}{
		"folders lead back to themselves": {func(t *testing.T, image []byte) {
			t.Helper()
			top := records(image, "ZZ")
			require.NotEmpty(t, top)
			for _, name := range []string{"AAAA", "BBBB"} {
				for _, r := range records(image, name) {
					r.leads(top[0])
				}
			}
		}, "its folder zz/aaaa is the same as zz"},
		"a folder leads to the root": {func(t *testing.T, image []byte) {
			t.Helper()
			for _, r := range records(image, "AAAA") { // the primary volume descriptor has the root's record
				r.leads(image[16*sector+156:])
			}
		}, "is the same as"},
		"a file is larger than the image": {func(t *testing.T, image []byte) {
			t.Helper()
			for _, r := range records(image, "F1.;1") {
				binary.LittleEndian.PutUint32(r[10:], 1<<31)
				binary.BigEndian.PutUint32(r[14:], 1<<31)
			}
		}, "its files are larger than the image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image, err := os.ReadFile(testenv.Upstream("v1.33.1", "amd64").With(testenv.Files{
				"zz/aaaa/f1": body,
				"zz/bbbb/f2": body,
			}).ISO(t))
			require.NoError(t, err)

			tc.change(t, image)
			bad := filepath.Join(t.TempDir(), "bad.iso")
			require.NoError(t, os.WriteFile(bad, image, 0o600))

			o := options(t, bad)
			_, err = Make(t.Context(), o)
			installerenv.RequireRefusal(t, err, tc.says, "create-kubernetes-binaries-iso.sh", 2)
			require.NoFileExists(t, o.To)
		})
	}
}

func TestMakeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := options(t, testenv.Upstream("v1.33.1", "amd64").ISO(t))
	_, err := Make(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
}
