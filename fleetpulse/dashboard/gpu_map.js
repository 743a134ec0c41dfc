// The map of GPUs on a canvas: ten thousand cells are drawn in a few milliseconds. Labels of a cell are
// fetched from the server when somebody looks at it, and set as text, never as markup.
const STEP = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const LOOK_AFTER_MS = 40;

export default {
  template: `<div class="fp-map">
    <div class="fp-map-hosts" v-if="hosts.length" aria-hidden="true"><span v-for="host in hosts">{{ host }}</span></div>
    <div class="fp-map-area" role="application" tabindex="0" :aria-label="label" :style="{height: height + 'px'}"
      @pointermove="point" @pointerleave="leave" @click="choose" @keydown="key" @blur="leave">
      <canvas aria-hidden="true"></canvas>
      <div class="fp-map-mark" ref="mark" hidden></div>
      <div class="fp-map-tip" ref="tip" role="status" hidden></div>
    </div>
    <div class="fp-map-legend">
      <span>{{ least }}</span><i class="fp-map-ramp" :style="{background: ramp}"></i><span>{{ most }}</span>
      <span class="fp-map-state"><i class="missing"></i>not reporting</span>
      <span class="fp-map-state"><i class="warned"></i>throttled or hot</span>
    </div>
  </div>`,
  props: {
    label: String,
    columns: Number,
    rows: Number,
    height: Number,
    places: String, // of each GPU row * columns + column, with spaces between
    levels: String, // of each GPU a letter: "0" is the first shade, a space not known
    states: String, // of each GPU "m" not reporting, "w" throttled or hot, "." fine
    shades: String, // colours from little to much, with spaces between
    hosts: Array, // names of the columns, where they are few
    least: String,
    most: String,
  },
  computed: {
    ramp() {
      return `linear-gradient(to right, ${this.shades.split(" ").join(",")})`;
    },
  },
  watch: {
    places: "soon",
    levels: "soon",
    states: "soon",
    shades: "soon",
  },
  mounted() {
    this.area = this.$el.querySelector(".fp-map-area");
    this.canvas = this.$el.querySelector("canvas");
    this.at = -1;
    this.sizes = new ResizeObserver(() => this.soon());
    this.sizes.observe(this.area);
    this.soon();
  },
  beforeUnmount() {
    this.sizes.disconnect();
  },
  methods: {
    soon() {
      this.frame ??= requestAnimationFrame(() => {
        this.frame = undefined;
        this.draw();
      });
    },
    draw() {
      const { clientWidth: width, clientHeight: height } = this.area;
      if (!width || !this.levels) return;
      const ratio = window.devicePixelRatio || 1;
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.at_place = this.places.split(" ").map(Number);
      this.index = new Map(this.at_place.map((place, number) => [place, number]));
      const pen = this.canvas.getContext("2d");
      const lefts = this.edges(this.columns, this.canvas.width), tops = this.edges(this.rows, this.canvas.height);
      for (const draw of [this.fills(), this.borders(ratio)]) {
        // Borders are drawn last, so that no neighbour covers them.
        this.at_place.forEach((place, number) => {
          const x = place % this.columns, y = (place - x) / this.columns;
          draw(pen, number, lefts[x], tops[y], lefts[x + 1] - lefts[x], tops[y + 1] - tops[y]);
        });
      }
      this.$el.dataset.drawn = this.index.size;
      if (this.at >= 0) this.look(this.at);
    },
    edges(count, length) {
      return Array.from({ length: count + 1 }, (_, number) => Math.round((number * length) / count));
    },
    fills() {
      const { gone, unknown } = this.colours(), shades = this.shades.split(" "), { states, levels } = this;
      return (pen, number, left, top, width, height) => {
        const known = levels[number] === " " ? unknown : shades[levels.charCodeAt(number) - 48], gap = height > 9 ? 2 : 1;
        pen.fillStyle = states[number] === "m" ? gone : known;
        pen.fillRect(left, top, width - gap, height - gap);
      };
    },
    borders(ratio) {
      const colours = this.colours(), { states } = this;
      return (pen, number, left, top, width, height) => {
        const colour = colours[states[number]];
        if (!colour) return;
        const gap = height > 9 ? 2 : 1, line = height > 9 * ratio ? 2 * ratio : ratio;
        pen.strokeStyle = colour;
        pen.lineWidth = line;
        pen.strokeRect(left + line / 2, top + line / 2, width - gap - line, height - gap - line);
      };
    },
    colours() {
      const style = getComputedStyle(this.$el), of = (name) => style.getPropertyValue(`--${name}`).trim();
      return { m: of("bad"), w: of("warn"), gone: of("gone"), unknown: of("line") };
    },
    box(place) {
      // Left, top, width and height of a cell in CSS pixels.
      const across = this.area.clientWidth / this.columns, down = this.area.clientHeight / this.rows;
      const x = place % this.columns, y = Math.floor(place / this.columns);
      const left = Math.round(x * across), top = Math.round(y * down);
      return [left, top, Math.round((x + 1) * across) - left, Math.round((y + 1) * down) - top];
    },
    place(event) {
      const { left, top, width, height } = this.area.getBoundingClientRect();
      const x = Math.floor(((event.clientX - left) / width) * this.columns);
      return Math.floor(((event.clientY - top) / height) * this.rows) * this.columns + x;
    },
    point(event) {
      const number = this.index?.get(this.place(event)) ?? -1;
      if (number !== this.at) number < 0 ? this.leave() : this.mark(number);
    },
    choose(event) {
      const number = this.index?.get(this.place(event)) ?? -1;
      if (number >= 0) this.$emit("choose", number);
    },
    key(event) {
      if (event.key === "Enter" && this.at >= 0) this.$emit("choose", this.at);
      if (event.key === "Escape") this.leave();
      if (!(event.key in STEP) || !this.index?.size) return;
      event.preventDefault();
      const [x, y] = STEP[event.key];
      const from = this.at < 0 ? undefined : this.at_place[this.at];
      this.mark(from === undefined ? 0 : this.next(from, x, y));
    },
    next(from, x, y) {
      // The next cell that way; rows have gaps between bands of hosts.
      const end = this.columns * this.rows, step = x + y * this.columns;
      for (let place = from + step; place >= 0 && place < end; place += step) {
        if (this.index.has(place)) return this.index.get(place);
      }
      return this.index.get(from);
    },
    mark(number) {
      this.at = number;
      const [left, top, width, height] = this.box(this.at_place[number]);
      Object.assign(this.$refs.mark.style, { left: `${left - 1}px`, top: `${top - 1}px`, width: `${width + 1}px`, height: `${height + 1}px` });
      this.$refs.mark.hidden = false;
      this.$refs.tip.hidden = true;
      clearTimeout(this.looking);
      this.looking = setTimeout(() => this.look(number), LOOK_AFTER_MS);
    },
    look(number) {
      this.$emit("look", number);
    },
    describe(number, lines) {
      if (number !== this.at) return;
      const { mark, tip } = this.$refs;
      tip.replaceChildren(...lines.map((line, first) => Object.assign(document.createElement(first ? "div" : "b"), { textContent: line })));
      tip.hidden = false;
      const left = mark.offsetLeft + mark.offsetWidth + 8, above = mark.offsetTop - tip.offsetHeight - 6;
      tip.style.left = `${Math.max(0, Math.min(left, this.area.clientWidth - tip.offsetWidth))}px`;
      tip.style.top = `${above >= 0 ? above : mark.offsetTop + mark.offsetHeight + 6}px`;
    },
    leave() {
      this.at = -1;
      clearTimeout(this.looking);
      this.$refs.mark.hidden = this.$refs.tip.hidden = true;
    },
  },
};
