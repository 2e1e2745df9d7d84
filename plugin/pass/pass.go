package pass

import "slices"

// Through returns what ADD prints for a pod that is not governed and whose result needs no conversion. For everything else, errors
// included, it reports false: the whole plugin is to answer.
func Through(getenv func(string) string, stdin []byte) (result []byte, passed bool) {
	if !Called(getenv) {
		return nil, false
	}
	r, err := Parse(stdin)
	if err != nil || r.Name == "" || !slices.Contains(Versions(), r.CNIVersion) || !r.HasResult() || r.Governs(PodOf(getenv("CNI_ARGS"))) {
		return nil, false
	}
	version, err := r.ResultVersion()
	if err != nil || version != "" && version != r.CNIVersion {
		return nil, false
	}
	return r.Same(), true
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
