// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volume reads and writes ISO 9660 volumes with Rock Ridge names, as Linux mounts them. It writes the same bytes
// for the same files: one time for all of them, one owner, one order. That is why it writes volumes itself: of the
// libraries in Go, diskfs/go-diskfs writes the clock's time and the files' change times, and kdomanski/iso9660 no long names.
package volume

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
)

const (
	sector = 2048
	// firstDescriptor is the sector of the primary volume descriptor; those before are for boot loaders.
	firstDescriptor = 16
	// pathTable is the sector of the path table, after the descriptor and the end of the descriptors.
	pathTable = firstDescriptor + 2
	// maxName is what a directory record of 255 bytes leaves for a Rock Ridge name, so that none is continued elsewhere.
	maxName = 150
)

// File is a file of a volume.
type File struct {
	Path       string // with slashes, without one at the beginning
	Size       int64
	Executable bool
	Open       func() (io.ReadCloser, error)
}

// directory is a directory of the volume.
type directory struct {
	path   string
	id     string // identifier of ISO 9660, for readers without Rock Ridge
	number int    // in the path table
	parent *directory
	dirs   []*directory
	files  []placed
	extent uint32
	size   uint32
}

type placed struct {
	*File
	id     string
	extent uint32
}

// Write writes a volume with the files. Their order does not matter.
func Write(w io.Writer, label string, files []File) error {
	root, err := tree(files)
	if err != nil {
		return err
	}
	all := root.all()
	tableSize := u32(int64(len(table(all, binary.LittleEndian))))
	next := pathTable + 2*sectors(int64(tableSize))
	for _, d := range all {
		d.size = u32(int64(len(d.records())))
		d.extent = u32(next)
		next += sectors(int64(d.size))
	}
	var content []placed
	for _, d := range all {
		for i := range d.files {
			d.files[i].extent = u32(next)
			next += sectors(d.files[i].Size)
			content = append(content, d.files[i])
		}
	}
	if next > math.MaxUint32 {
		return fmt.Errorf("%d sectors are more than a volume can have", next)
	}
	out := &padded{w: w}
	out.write(make([]byte, firstDescriptor*sector))
	out.write(descriptor(label, root, u32(next), tableSize))
	out.write([]byte("\xffCD001\x01"))
	out.write(table(all, binary.LittleEndian))
	out.write(table(all, binary.BigEndian))
	for _, d := range all {
		out.write(d.records())
	}
	for i := range content {
		out.copy(content[i].File)
	}
	return out.err
}

func sectors(size int64) int64 { return (size + sector - 1) / sector }

// padded writes whole sectors, until something fails.
type padded struct {
	w   io.Writer
	err error
}

func (p *padded) write(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
	p.pad(int64(len(b)))
}

func (p *padded) pad(size int64) {
	if p.err == nil {
		_, p.err = p.w.Write(make([]byte, sectors(size)*sector-size))
	}
}

func (p *padded) copy(f *File) {
	if p.err != nil {
		return
	}
	p.err = func() error {
		in, err := f.Open()
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		n, err := io.Copy(p.w, io.LimitReader(in, f.Size+1))
		if err == nil && n != f.Size {
			err = fmt.Errorf("%s changed while it was read", f.Path)
		}
		return err
	}()
	p.pad(f.Size)
}

// tree sorts the files into directories.
func tree(files []File) (*directory, error) {
	root := &directory{path: ".", id: "\x00"}
	dirs := map[string]*directory{".": root}
	var dir func(p string) *directory
	dir = func(p string) *directory {
		if d := dirs[p]; d != nil {
			return d
		}
		d := &directory{path: p, parent: dir(path.Dir(p))}
		d.parent.dirs = append(d.parent.dirs, d)
		dirs[p] = d
		return d
	}
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for i := range sorted {
		f := &sorted[i]
		switch {
		case f.Path != path.Clean(f.Path) || path.IsAbs(f.Path) || f.Path == "." || strings.HasPrefix(f.Path, "../"):
			return nil, fmt.Errorf("%q is no path of a volume", f.Path)
		case i > 0 && sorted[i-1].Path == f.Path, dirs[f.Path] != nil:
			return nil, fmt.Errorf("%s is there twice", f.Path)
		case f.Size > math.MaxUint32:
			return nil, fmt.Errorf("%s has %d bytes; a file of a volume has at most 4 GiB", f.Path, f.Size)
		}
		for part := range strings.SplitSeq(f.Path, "/") {
			if len(part) > maxName {
				return nil, fmt.Errorf("%s: a name has at most %d bytes", f.Path, maxName)
			}
		}
		d := dir(path.Dir(f.Path))
		d.files = append(d.files, placed{File: f})
	}
	for i := range sorted {
		if dirs[sorted[i].Path] != nil {
			return nil, fmt.Errorf("%s is a file and a directory", sorted[i].Path)
		}
	}
	for _, d := range dirs {
		d.identify()
	}
	return root, nil
}

// identify gives what a directory holds identifiers, in whose order ISO 9660 wants the records.
func (d *directory) identify() {
	taken := map[string]bool{}
	for _, sub := range d.dirs {
		sub.id = identifier(path.Base(sub.path), taken)
	}
	for i := range d.files {
		d.files[i].id = identifier(path.Base(d.files[i].Path), taken) + ";1"
	}
	slices.SortFunc(d.dirs, func(a, b *directory) int { return strings.Compare(a.id, b.id) })
	slices.SortFunc(d.files, func(a, b placed) int { return strings.Compare(a.id, b.id) })
}

// identifier returns a name of letters, digits and underscores that is not taken: "KUBE_PROXY_V1_33_1.TAR".
func identifier(name string, taken map[string]bool) string {
	clean := func(s string, most int) string {
		s = strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
				return r
			}
			return '_'
		}, strings.ToUpper(s))
		return s[:min(len(s), most)]
	}
	ext := path.Ext(name)
	base, ext := clean(strings.TrimSuffix(name, ext), 20), clean(strings.TrimPrefix(ext, "."), 3)
	for i := 0; ; i++ {
		id := base
		if i > 0 {
			id = fmt.Sprintf("%s_%d", base, i)
		}
		if ext != "" {
			id += "." + ext
		}
		if !taken[id] {
			taken[id] = true
			return id
		}
	}
}

// all returns the directories in the order of the path table: by depth, then in the order of their parents.
func (d *directory) all() []*directory {
	out := []*directory{d}
	d.parent = d
	for i := 0; i < len(out); i++ {
		out[i].number = i + 1
		out = append(out, out[i].dirs...)
	}
	return out
}

// table returns the path table.
func table(all []*directory, order binary.AppendByteOrder) []byte {
	var b []byte
	for _, d := range all {
		b = append(b, u8(len(d.id)), 0)
		b = order.AppendUint32(b, d.extent)
		b = order.AppendUint16(b, u16(d.parent.number))
		b = append(b, d.id...)
		if len(d.id)%2 == 1 {
			b = append(b, 0)
		}
	}
	return b
}

// records returns the directory's records. None crosses the end of a sector.
func (d *directory) records() []byte {
	var b []byte
	add := func(record []byte) {
		if used := len(b) % sector; used+len(record) > sector {
			b = append(b, make([]byte, sector-used)...)
		}
		b = append(b, record...)
	}
	self := slices.Concat(sharing, d.mode(), extension)
	if d.parent != d {
		self = d.mode()
	}
	add(record("\x00", d.extent, d.size, true, self))
	add(record("\x01", d.parent.extent, d.parent.size, true, d.parent.mode()))
	for _, sub := range d.dirs {
		add(record(sub.id, sub.extent, sub.size, true, slices.Concat(sub.mode(), named(sub.path))))
	}
	for i := range d.files {
		f := &d.files[i]
		mode := uint32(0o100644)
		if f.Executable {
			mode = 0o100755
		}
		add(record(f.id, f.extent, u32(f.Size), false, slices.Concat(posix(mode, 1), named(f.Path))))
	}
	return append(b, make([]byte, sectors(int64(len(b)))*sector-int64(len(b)))...)
}

func (d *directory) mode() []byte { return posix(0o040755, u32(int64(2+len(d.dirs)))) }

// The entries of SUSP and Rock Ridge (RRIP_1991A): the first record of the root says that they are used.
var (
	sharing   = []byte("SP\x07\x01\xbe\xef\x00")
	extension = []byte("ER\x12\x01\x0a\x00\x00\x01RRIP_1991A")
)

// posix is the entry PX: mode, links, and root as owner and group.
func posix(mode, links uint32) []byte {
	return slices.Concat([]byte("PX\x24\x01"), both32(mode), both32(links), both32(0), both32(0))
}

// named is the entry NM: the name as it is.
func named(p string) []byte {
	name := path.Base(p)
	return append([]byte{'N', 'M', u8(5 + len(name)), 1, 0}, name...)
}

// epoch is the time of everything in a volume, 1970-01-01, in a directory record.
var epoch = []byte{70, 1, 1, 0, 0, 0, 0}

func record(id string, extent, size uint32, isDir bool, more []byte) []byte {
	flags := byte(0)
	if isDir {
		flags = 2
	}
	b := slices.Concat([]byte{0, 0}, both32(extent), both32(size), epoch, []byte{flags, 0, 0}, both16(1), []byte{u8(len(id))}, []byte(id))
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	b = append(b, more...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	b[0] = u8(len(b))
	return b
}

// descriptor returns the primary volume descriptor.
func descriptor(label string, root *directory, size, tableSize uint32) []byte {
	text := func(s string, length int) []byte {
		return []byte(s[:min(len(s), length)] + strings.Repeat(" ", max(0, length-len(s))))
	}
	second := u32(pathTable + sectors(int64(tableSize)))
	created := []byte("1970010100000000\x00")
	never := []byte("0000000000000000\x00")
	return slices.Concat(
		[]byte("\x01CD001\x01\x00"), text("LINUX", 32), text(label, 32), make([]byte, 8), both32(size), make([]byte, 32),
		both16(1), both16(1), both16(sector), both32(tableSize),
		binary.LittleEndian.AppendUint32(nil, pathTable), make([]byte, 4), binary.BigEndian.AppendUint32(nil, second), make([]byte, 4),
		record("\x00", root.extent, root.size, true, nil),
		bytes.Repeat([]byte{' '}, 4*128+3*37), created, created, never, never, []byte{1, 0},
	)
}

// The numbers fit: Write and tree refuse files and volumes that are too large, maxName bounds names, and ISOs of CKS have a
// handful of folders.
func u8(n int) byte      { return byte(n) }   //nolint:gosec // as said
func u16(n int) uint16   { return uint16(n) } //nolint:gosec // as said
func u32(n int64) uint32 { return uint32(n) } //nolint:gosec // as said

// both16 and both32 are numbers in both byte orders.
func both16(n uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, n), n)
}

func both32(n uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, n), n)
}
