package helm

// NewGetter lets tests use actions of Helm's library that this package does not offer.
var NewGetter = newGetter
