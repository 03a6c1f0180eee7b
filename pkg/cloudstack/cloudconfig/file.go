// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudconfig

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack/ini"
	"github.com/csccm/csccm/pkg/typo"
)

const maxSize = 1 << 20 // bytes

// Parse reads a cloud-config; an unknown section or key is an error that names it.
//
// Section and key names are read in any case. Values are read as by ini.Unquote, so that keys may hold # and ;. Errors
// name the line where they can, and never repeat a value.
func Parse(r io.Reader) (*Config, error) {
	cfg, err := parse(r)
	if err != nil {
		return nil, fmt.Errorf("cloud-config: %w", err)
	}
	return cfg, nil
}

func parse(r io.Reader) (*Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, errors.New("is larger than 1 MiB")
	}
	cfg := Default()
	found := false
	for i, l := range ini.Scan(string(text)) {
		var err error
		switch {
		case l.Kind == ini.Blank:
		case l.Kind == ini.Section && strings.EqualFold(l.Name, "global"):
			found = true
		case l.Kind == ini.Section:
			err = fmt.Errorf("unknown section [%s]; there is only [Global]", shown(l.Name))
		case l.Kind == ini.Bare && strings.EqualFold(l.Name, "ssl-no-verify"):
			cfg.SSLNoVerify = true // as gcfg reads it
		case l.Kind != ini.Key:
			err = errors.New("is neither [Global] nor key = value nor a comment")
		case !found:
			err = fmt.Errorf("key %s stands above any section; write [Global] above it", shown(l.Name))
		default:
			err = cfg.set(strings.ToLower(l.Name), l.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if !found {
		return nil, errors.New("section [Global] is missing")
	}
	return &cfg, cfg.Validate()
}

// set reads one key.
func (c *Config) set(name, raw string) error {
	var names []string
	for i := range keys {
		k := &keys[i]
		if k.name != name {
			names = append(names, k.name)
			continue
		}
		value, err := ini.Unquote(raw)
		if err == nil && value != "" { // an empty value counts as none
			err = k.set(c, value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	const longest = 40 // no key is that long, and a misplaced value may have any length
	if near := typo.Nearest(name, names, 2); len(name) <= longest && len(near) > 0 {
		return fmt.Errorf("unknown key %s; did you mean %s?", shown(name), near[0])
	}
	return fmt.Errorf("unknown key %s; known are %s", shown(name), strings.Join(names, ", "))
}

// shown quotes a name for an error text. A long one is probably a misplaced value, perhaps a secret.
func shown(name string) string {
	const longest = 32
	if len(name) > longest {
		return fmt.Sprintf("(a name of %d characters)", len(name))
	}
	return strconv.Quote(name)
}

// Render returns the cloud-config with its secrets, for a Secret and for nothing else. Parse reads it back to the same
// values; defaults are left out.
func (c *Config) Render() []byte {
	var b strings.Builder
	b.WriteString("[Global]\n")
	for k, v := range c.values {
		b.WriteString(k.name + " = " + ini.Quote(v) + "\n")
	}
	return []byte(b.String())
}
