package pass

import "slices"

// Through returns what ADD prints for a pod that is not governed and whose result needs no conversion. For everything else, errors
// included, it reports false: the whole plugin is to answer.
func Through(getenv func(string) string, stdin []byte) (result []byte, passed bool) {
	r, plain := Plain(getenv, stdin)
	if !plain || r.Governs(PodOf(getenv("CNI_ARGS"))) {
		return nil, false
	}
	return r.Same(), true
}

// Plain reads an ADD whose result needs no conversion, of which a library for plugins would have nothing to say. Of anything else it
// reports false.
func Plain(getenv func(string) string, stdin []byte) (r Request, plain bool) {
	if !Called(getenv) {
		return Request{}, false
	}
	r, err := Parse(stdin)
	if err != nil || r.Name == "" || !slices.Contains(Versions(), r.CNIVersion) || !r.HasResult() {
		return Request{}, false
	}
	version, err := r.ResultVersion()
	return r, err == nil && (version == "" || version == r.CNIVersion)
}

// Called reports whether the environment is that of an ADD.
func Called(getenv func(string) string) bool {
	for _, name := range []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"} {
		if getenv(name) == "" {
			return false
		}
	}
	return getenv("CNI_COMMAND") == "ADD"
}
