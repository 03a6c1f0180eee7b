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
// The names of sections and keys are not case-sensitive. Values are read by ini.Unquote, so that API keys may contain #
// and ;. Errors name the line if possible, and never repeat a value.
func Parse(r io.Reader) (*Config, error) {
	cfg := Default()
	if err := cfg.Read(r); err != nil {
		return nil, fmt.Errorf("cloud-config: %w", err)
	}
	return &cfg, nil
}

// Read is like Parse, but keeps the values of c that the file does not set.
func (c *Config) Read(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return err
	}

	if len(text) > maxSize {
		return errors.New("is larger than 1 MiB")
	}

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
			c.SSLNoVerify = true // as with gcfg
		case l.Kind != ini.Key:
			err = errors.New("is neither [Global] nor key = value nor a comment")
		case !found:
			err = fmt.Errorf("key %s is outside of a section; write [Global] above it", shown(l.Name))
		default:
			err = c.set(strings.ToLower(l.Name), l.Value)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}

	if !found {
		return errors.New("section [Global] is missing")
	}

	return c.Validate()
}

// others maps keys of other CloudStack providers to the same keys of csccm; "" if csccm has none.
var others = map[string]string{
	"api-rate-limit-qps":   "rate-limit",
	"api-rate-limit-burst": "rate-burst",
	"async-job-timeout":    "job-timeout",
	"vm-cache-ttl":         "",
	verifySSL:              "ssl-no-verify",
}

// verifySSL is the key of Cluster API's provider for the opposite of ssl-no-verify.
const verifySSL = "verify-ssl"

// set reads one line of a file. An empty value is ignored.
func (c *Config) set(name, raw string) error {
	value, err := ini.Unquote(raw)
	if ours, other := others[name]; other {
		_, number := strconv.Atoi(value)
		verify, wrong := parseBool(value)

		switch {
		case ours == "" || ours == "rate-burst" && value == "0": // without a limit there is no burst
			c.Ignored = append(c.Ignored, name)
			return nil
		case ours == "job-timeout" && number == nil:
			value += "s"
		case name == verifySSL && wrong == nil:
			value = strconv.FormatBool(!verify)
		}
		name = ours
	}

	_, unknown := lookup(name)
	switch {
	case unknown != nil:
		return unknown
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case value == "":
		return nil
	}

	return c.Set(name, value)
}

// Set sets a key to a value.
func (c *Config) Set(name, value string) error {
	k, err := lookup(name)
	if err != nil {
		return err
	}
	if err := k.set(c, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// lookup finds a key by its name.
func lookup(name string) (*key, error) {
	var names []string
	for i := range keys {
		if keys[i].name == name {
			return &keys[i], nil
		}
		names = append(names, keys[i].name)
	}
	const longest = 40 // no key is that long, and a misplaced value may have any length
	if near := typo.Nearest(name, names, 2); len(name) <= longest && len(near) > 0 {
		return nil, fmt.Errorf("unknown key %s; did you mean %s?", shown(name), near[0])
	}
	return nil, fmt.Errorf("unknown key %s; known are %s", shown(name), strings.Join(names, ", "))
}

// shown quotes a name for an error text. A long name is not shown: it is probably a misplaced value, perhaps a secret.
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
