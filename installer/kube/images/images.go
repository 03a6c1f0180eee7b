// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images lists the container images that a rendered chart needs, for
// clusters that pull from a mirror.
package images

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/installer/engine/diff"
)

// Image is one image as the manifest names it.
type Image struct {
	Image      string `json:"image"`
	Registry   string `json:"registry"`
	Repository string `json:"repository"` // without the registry
	Tag        string `json:"tag,omitempty"`
	Digest     string `json:"digest,omitempty"`
	// Mirror is the image's name in the mirror; "" if List was called without a mirror.
	Mirror string `json:"mirror,omitempty"`
}

// List returns the images of a manifest. mirror is a registry, optionally with a
// path, that replaces the images' registry; "" means no mirror.
func List(manifest, mirror string) ([]Image, error) {
	objects, err := diff.Parse(manifest)
	if err != nil {
		return nil, fmt.Errorf("rendered manifest: %w", err)
	}
	seen := map[string]bool{}
	var out []Image
	for i := range objects {
		for _, name := range podImages(&objects[i]) {
			if seen[name] {
				continue
			}
			seen[name] = true
			image := parse(name)
			if mirror != "" {
				image.Mirror = image.under(mirror)
			}
			out = append(out, image)
		}
	}
	slices.SortFunc(out, func(a, b Image) int { return strings.Compare(a.Image, b.Image) })
	return out, nil
}

// podImages returns the images of a Pod or of an object with a Pod template.
func podImages(o *unstructured.Unstructured) []string {
	var out []string
	for _, spec := range [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}} {
		for _, field := range []string{"initContainers", "containers"} {
			list, _, _ := unstructured.NestedSlice(o.Object, append(slices.Clone(spec), field)...)
			for _, c := range list {
				container, _ := c.(map[string]any)
				if image, _ := container["image"].(string); image != "" {
					out = append(out, image)
				}
			}
		}
	}
	return out
}

// parse splits an image's name as container runtimes do.
func parse(name string) Image {
	out := Image{Image: name, Registry: "docker.io"}
	rest, digest, _ := strings.Cut(name, "@")
	out.Digest = digest
	if first, more, ok := strings.Cut(rest, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		out.Registry, rest = first, more
	}
	if i := strings.LastIndex(rest, ":"); i >= 0 {
		rest, out.Tag = rest[:i], rest[i+1:]
	}
	out.Repository = rest
	return out
}

func (i *Image) under(mirror string) string {
	s := strings.TrimSuffix(strings.TrimPrefix(mirror, "https://"), "/") + "/" + i.Repository
	if i.Tag != "" {
		s += ":" + i.Tag
	}
	if i.Digest != "" {
		s += "@" + i.Digest
	}
	return s
}

// Lines lists images one per line, with the name in a mirror where there is one.
func Lines(list []Image) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(strings.TrimSpace(list[i].Image+" "+list[i].Mirror) + "\n")
	}
	return b.String()
}
