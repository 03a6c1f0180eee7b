// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// Volume is a volume that is read.
type Volume struct {
	fs.FS
	file *os.File
}

// Close closes the volume's file.
func (v *Volume) Close() error { return v.file.Close() }

// Open opens the volume in a file.
func Open(name string) (_ *Volume, err error) {
	f, err := os.Open(name) // #nosec G304 -- the user names it
	if err != nil {
		return nil, err
	}
	defer func() {
		// The library has no checks of its own for every number that it reads.
		if r := recover(); r != nil {
			err = fmt.Errorf("its directories are damaged: %v", r)
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("%s is no ISO 9660 volume: %w", name, err), f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, sector)
	if _, err := f.ReadAt(head, firstDescriptor*sector); err != nil || string(head[1:6]) != "CD001" {
		return nil, errors.New("it has no volume descriptor")
	}
	// The library reads zeros beyond the end of a file.
	if want := int64(binary.LittleEndian.Uint32(head[80:84])) * sector; want > info.Size() {
		return nil, fmt.Errorf("it is cut off: it has %d of %d bytes", info.Size(), want)
	}
	volume, err := iso9660.Read(file.New(f, true), info.Size(), 0, sector)
	if err != nil {
		return nil, err
	}
	return &Volume{volume, f}, nil
}
