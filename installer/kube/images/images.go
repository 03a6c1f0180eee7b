// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images lists the container images that a rendered chart needs, for
// clusters that pull from a mirror.
package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/installer/engine/diff"
)

// Image is one image as the manifest names it.
type Image struct {
	Image string `json:"image"`
	// Mirror is the image's name in the mirror; "" if List was called without a mirror.
	Mirror string `json:"mirror,omitempty"`
}

// List returns the images of a manifest. mirror is a registry, optionally with a
// path, that replaces the images' registry; "" means no mirror.
func List(manifest, mirror string) (out []Image, err error) {
	objects, err := diff.Parse(manifest)
	if err != nil {
		return nil, fmt.Errorf("rendered manifest: %w", err)
	}
	names := map[string]bool{}
	for i := range objects {
		for _, spec := range [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}} {
			for _, field := range []string{"initContainers", "containers"} {
				list, _, _ := unstructured.NestedSlice(objects[i].Object, append(slices.Clone(spec), field)...)
				for _, c := range list {
					container, _ := c.(map[string]any)
					if image, _ := container["image"].(string); image != "" {
						names[image] = true
					}
				}
			}
		}
	}
	mirror = strings.TrimSuffix(strings.TrimPrefix(mirror, "https://"), "/")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		image := Image{Image: name}
		if registry, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(registry, ".:") || registry == "localhost") {
			name = rest
		}
		if mirror != "" {
			image.Mirror = mirror + "/" + name
		}
		out = append(out, image)
	}
	return out, nil
}
